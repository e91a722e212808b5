"""The paper's workflows W1 to W4 and that of its Figure 1, as flows with generated data."""
