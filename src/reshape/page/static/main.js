// Keeps the line to the server, knows which runs are looked at, and gives changes to their panels.

import { choices } from "./dom.js";
import { Panel } from "./panel.js";

const first = document.getElementById("first");
const second = document.getElementById("second");
const area = document.getElementById("runs");
const empty = document.getElementById("empty");
const connection = document.getElementById("connection");
const spoken = document.getElementById("spoken");

const address = new URL(location.href);
let chosen = [address.searchParams.get("run"), address.searchParams.get("beside")].filter(Boolean).map(Number);
let runs = [];
let source = null;
const panels = new Map();

// The token has become a cookie: it is not to stay in the address bar, in the history or in a bookmark.
history.replaceState(null, "", "/");

function connect() {
  source?.close();
  for (const [number, panel] of panels) {
    if (!chosen.includes(number)) {
      panel.node.remove();
      panels.delete(number);
    } else panel.forget();
  }
  source = new EventSource(`/events?runs=${chosen.join(",")}`);
  source.onopen = () => say("live", "live");
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onerror = () => {
    say("lost", source.readyState === EventSource.CLOSED ? "the server refuses: open the address again" : "not connected: has the program ended?");
    for (const panel of panels.values()) panel.forget();
  };
}

function say(state, text) {
  connection.dataset.state = state;
  if (connection.textContent !== text) connection.textContent = text;
}

function take(message) {
  if (message.runs) {
    runs = message.runs;
    list();
  }
  for (const [number, changes] of Object.entries(message.changes ?? {})) panel(Number(number)).take(changes);
}

function panel(number) {
  if (!panels.has(number)) {
    panels.set(number, new Panel(number, (text) => (spoken.textContent = text), (action, value) => act(number, action, value)));
    place();
  }
  return panels.get(number);
}

async function act(number, action, value) {
  const query = value === null ? "" : `?value=${value}`;
  const answer = await fetch(`/runs/${number}/${action}${query}`, { method: "POST" }).catch(() => {
    throw new Error("the program does not answer: has it ended?");
  });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    throw new Error(told.error);
  }
}

function place() {
  area.classList.toggle("two", chosen.length === 2);
  empty.hidden = chosen.length > 0;
  for (const number of chosen) if (panels.has(number)) area.append(panels.get(number).node);
}

function list() {
  const numbers = runs.map((run) => run.number);
  const before = chosen.join();
  chosen = chosen.filter((number) => numbers.includes(number));
  if (!chosen.length && runs.length) chosen = [numbers.at(-1)];
  const names = runs.map((run) => [String(run.number), `${run.number}: ${run.name} (${run.status.split(":")[0]})`]);
  choices(first, names, chosen[0] ?? "");
  choices(second, [["", "nothing"], ...names.filter(([value]) => Number(value) !== chosen[0])], chosen[1] ?? "");
  if (chosen.join() !== before || !source) {
    connect();
    place();
  }
}

function choose() {
  chosen = [Number(first.value), Number(second.value)].filter((number, at, all) => number && all.indexOf(number) === at);
  connect();
  list();
  place();
}

first.addEventListener("change", choose);
second.addEventListener("change", choose);
connect();
