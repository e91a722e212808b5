"""Certificates for tests of encrypted connections, made by an authority of their own."""

from __future__ import annotations

from dataclasses import dataclass

import trustme


@dataclass(frozen=True, slots=True)
class Pem:
    certificate: str
    key: str
    authority: str


def certificate_for(name: str) -> Pem:
    authority = trustme.CA()
    issued = authority.issue_cert(name)
    chain = "".join(part.bytes().decode() for part in issued.cert_chain_pems)
    return Pem(chain, issued.private_key_pem.bytes().decode(), authority.cert_pem.bytes().decode())
