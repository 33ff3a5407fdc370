// Keeps a page as the server has it, and sorts and filters its table. The server renders; nothing is written back.

const body = document.body;
const live = document.getElementById("live");
let number = body.dataset.number;
let source = null;

// --- Changes -------------------------------------------------------------------------------------------------------

const FOCUSABLE = "a[href], button, input, summary, [tabindex]";

function focusIn(element) {
  const active = document.activeElement;
  if (!element.contains(active)) return null;
  return active === element ? -1 : [...element.querySelectorAll(FOCUSABLE)].indexOf(active);
}

function restoreFocus(element, at) {
  const target = at === -1 ? element : element.querySelectorAll(FOCUSABLE)[at];
  if (target) target.focus({ preventScroll: true });
}

/** What the reader has opened stays open. */
function keepOpen(before, after) {
  for (const details of before.querySelectorAll("details[data-key]")) {
    const same = after.querySelector(`details[data-key="${CSS.escape(details.dataset.key)}"]`);
    if (same) same.open = details.open;
  }
}

function put([id, place, html]) {
  const template = document.createElement("template");
  template.innerHTML = html; // escaped by the server, and the policy of the page runs no script in it
  const element = template.content.firstElementChild;
  const before = document.getElementById(id);
  if (before) {
    const at = focusIn(before);
    keepOpen(before, element);
    before.replaceWith(element);
    if (at !== null) restoreFocus(element, at);
  } else {
    document.getElementById(place)?.append(element);
  }
  return element;
}

function apply(changes) {
  const touched = changes.put.map(put);
  for (const id of changes.removed) document.getElementById(id)?.remove();
  for (const table of tables) table.changed(touched);
  pressChips();
  tick();
  if (source?.readyState === EventSource.OPEN) following();
}

// --- Connection ----------------------------------------------------------------------------------------------------

function state(word, kind) {
  if (live.textContent !== word) live.textContent = word;
  live.className = kind;
}

/** The page has all that the dashboard has; with a banner, that is not what the API server has. */
function following() {
  if (document.getElementById("banner")?.hidden === false) state("not up to date", "off");
  else state("live", "on");
}

function connect() {
  if (source || !body.dataset.events) return;
  source = new EventSource(`${body.dataset.events}?since=${number}`);
  source.onopen = following;
  source.onerror = () => {
    if (source?.readyState === EventSource.CLOSED) {
      disconnect();
      state(body.dataset.ended ?? "ended: run `espalier dashboard` again, and open what it prints", "off");
      retry = setTimeout(connect, 5000);
    } else {
      state("connection lost, trying again", "off");
    }
  };
  source.addEventListener("changes", (event) => {
    number = event.lastEventId;
    apply(JSON.parse(event.data));
  });
  source.addEventListener("reload", () => location.reload());
}

let retry = 0;

function disconnect() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

// A browser has six connections to a server for all of its pages: those that nobody sees leave theirs to others.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    disconnect();
    state("asleep", "off");
  } else {
    connect();
  }
});
addEventListener("pagehide", disconnect);
addEventListener("pageshow", () => !document.hidden && connect());

// --- Time ----------------------------------------------------------------------------------------------------------

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** A duration in its largest unit with at least two, as the server and kubectl write it. */
function span(seconds) {
  for (const [unit, size] of UNITS) if (seconds >= 2 * size) return `${Math.floor(seconds / size)}${unit}`;
  return `${Math.max(0, Math.floor(seconds))}s`;
}

/** When the text of each time changes next: of a thousand rows, few are due each second. */
const due = new WeakMap();

function tick() {
  const now = Date.now();
  for (const time of document.getElementsByTagName("time")) {
    if (now < due.get(time)) continue;
    const at = Date.parse(time.dateTime);
    const seconds = time.dataset.until === undefined ? (now - at) / 1000 : (at - now) / 1000;
    const [, size] = UNITS.find(([, size]) => seconds >= 2 * size) ?? UNITS.at(-1);
    due.set(time, Number.isNaN(at) ? Infinity : now + (time.dataset.until === undefined ? 1000 * (size - (seconds % size)) : 1000));
    const text = span(seconds);
    if (!Number.isNaN(at) && time.textContent !== text) time.textContent = text;
  }
}

// --- Tables --------------------------------------------------------------------------------------------------------

const compare = new Intl.Collator("en", { numeric: true }).compare;
const parameters = new URLSearchParams(location.search);
const filter = document.getElementById("filter");
const count = document.getElementById("count");
const flags = new Set((parameters.get("only") ?? "").split(" ").filter(Boolean));

function remember() {
  for (const [name, value] of [["q", filter?.value ?? ""], ["only", [...flags].join(" ")]]) {
    if (value) parameters.set(name, value);
    else parameters.delete(name);
  }
  const query = parameters.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

class Table {
  constructor(element) {
    this.isFiltered = element.dataset.filtered !== undefined;
    this.rows = document.getElementById(element.dataset.rows);
    this.heads = [...element.querySelectorAll("th")];
    this.key = `sort-${element.dataset.rows}`;
    const [column, way] = (parameters.get(this.key) ?? "").split(" ");
    this.column = /^\d+$/.test(column) && Number(column) < this.heads.length ? Number(column) : null;
    this.down = way === "down";
    element.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-column]");
      if (button) this.sortBy(Number(button.dataset.column));
    });
    this.show();
    this.sort();
    this.filter();
  }

  sortBy(column) {
    this.down = this.column === column && !this.down;
    this.column = column;
    parameters.set(this.key, `${column} ${this.down ? "down" : "up"}`);
    remember();
    this.show();
    this.sort();
  }

  show() {
    this.heads.forEach((head, index) => {
      const way = index === this.column ? (this.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", way);
    });
  }

  order(one, other) {
    const [a, b] = [one, other].map((row) => row.cells[this.column]?.dataset.sort ?? "");
    return (this.down ? -1 : 1) * compare(a, b) || compare(one.id, other.id);
  }

  sort() {
    const order = this.column === null ? (one, other) => compare(one.id, other.id) : (a, b) => this.order(a, b);
    const rows = [...this.rows.rows];
    if (rows.every((row, index) => index === 0 || order(rows[index - 1], row) <= 0)) return;
    const active = document.activeElement;
    rows.sort(order);
    this.rows.append(...rows);
    if (active && active !== body && this.rows.contains(active)) active.focus({ preventScroll: true });
  }

  filter() {
    if (!this.isFiltered) return;
    const words = (filter?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of this.rows.rows) {
      const has = (row.dataset.flags ?? "").split(" ");
      const states = [...flags].filter((flag) => STATES.has(flag));
      const others = [...flags].filter((flag) => !STATES.has(flag));
      const fits = (!states.length || states.some((flag) => has.includes(flag))) && others.every((flag) => has.includes(flag));
      const text = words.length ? row.textContent.toLowerCase() : "";
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      if (!row.hidden) shown += 1;
    }
    const total = this.rows.rows.length;
    if (count && (total || count.textContent)) { // without a text, the reader may not list them: how many, nobody says
      const noun = total === 1 ? count.dataset.noun : `${count.dataset.noun}s`;
      const text = shown === total ? `${total} ${noun}` : `${shown} of ${total} ${noun}`;
      if (count.textContent !== text) count.textContent = text;
    }
  }

  changed(elements) {
    if (elements.some((element) => element.parentElement === this.rows)) this.sort();
    this.filter();
  }
}

const STATES = new Set(["failing", "changing", "unknown", "paused", "ready"]);

function pressChips() {
  for (const chip of document.querySelectorAll("button[data-flag]")) {
    const pressed = flags.has(chip.dataset.flag);
    chip.setAttribute("aria-pressed", String(pressed));
    if (pressed) chip.disabled = false;
  }
}

document.addEventListener("click", (event) => {
  const chip = event.target.closest("button[data-flag]");
  if (!chip) return;
  if (!flags.delete(chip.dataset.flag)) flags.add(chip.dataset.flag);
  pressChips();
  remember();
  for (const table of tables) table.filter();
});

let typing = 0;

if (filter) {
  filter.value = parameters.get("q") ?? "";
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      remember();
      for (const table of tables) table.filter();
    }, 80);
  });
}

document.addEventListener("keydown", (event) => {
  const writes = event.target.closest("input, textarea, select");
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey && filter) {
    event.preventDefault();
    filter.focus();
  } else if (event.key === "Escape" && event.target === filter && filter.value) {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  }
});

const tables = [...document.querySelectorAll("table[data-rows]")].map((element) => new Table(element));
pressChips();
tick();
setInterval(tick, 1000);
if (!document.hidden) connect();
