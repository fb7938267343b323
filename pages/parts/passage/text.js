// The passage: tokens as running text, one of them current, its values in the card beside it.
// Everything that comes from the file arrives in `data` and is shown through textContent alone.
// The current position lives in the URL (?position=417); this file alone reads and writes it.

const rooms = new WeakMap(); // mounted element → what it shows; a rerun calls `show` again on the same element

export default function ({ data, parentElement }) {
  const room = rooms.get(parentElement) ?? enter(parentElement);
  const another = room.data && room.data.build !== data.build;
  if (room.data?.build !== data.build) build(room, data);
  room.data = data;
  paint(room, data);
  select(room, another ? 0 : room.current ?? fromUrl(data));
  if (another) toUrl(0);
  seek(room, data);
}

function enter(element) {
  const find = (name) => element.querySelector(name);
  const room = { text: find(".text"), card: find(".card"), legend: find(".legend"), finds: find(".finds"), data: null, current: null, tokens: [] };
  room.style = find(".passage").appendChild(document.createElement("style"));
  const at = (event) => event.target.closest?.(".token");
  room.text.addEventListener("mouseover", (event) => at(event) && describe(room, indexOf(at(event))));
  room.text.addEventListener("mouseleave", () => describe(room, room.current));
  room.text.addEventListener("focusin", (event) => at(event) && move(room, indexOf(at(event))));
  room.text.addEventListener("click", (event) => at(event)?.focus());
  room.text.addEventListener("keydown", (event) => press(room, event));
  rooms.set(element, room);
  return room;
}

// ---- text

function build(room, data) {
  const { text, mark, ends } = data.tokens;
  const last = new Set(ends);
  room.text.replaceChildren();
  room.tokens = text.map((word, index) => {
    // The space before a word stays outside its colour: it would show at the end of a line, away from the word.
    const [, space, rest] = word.match(/^( *)([^]*)$/);
    const token = make("span", "token", shown(rest || space));
    token.dataset.index = index;
    token.tabIndex = -1;
    token.setAttribute("role", "option");
    room.text.append(rest && space, token);
    if (word.includes("\n")) room.text.append("\n".repeat(word.split("\n").length - 1));
    if (mark[index] === "id") room.text.append(" ");
    if (last.has(index)) room.text.append(make("div", "end", "document ends"));
    return token;
  });
  room.text.setAttribute("aria-label", data.label);
  room.current = null;
}

// White space that would not be seen gets a mark of its own.
const shown = (word) => word.replaceAll("\r", "␍").replaceAll("\n", "↵").replaceAll("\t", "⇥");

// ---- colours

function paint(room, data) {
  const most = Math.max(0, ...data.scale.map((step) => step.lines));
  const rows = data.beside.flatMap((row, at) => row.scale.map((step, level) => fill(step, level, at)));
  const passing = data.passing && new Set(data.passing);
  const found = new Set(data.found);
  room.style.textContent = [`.passage { --rise: ${3 * most + 1}px; --rows: ${data.beside.length}; }`, ...data.scale.map(rule), ...rows].join("\n");
  room.tokens.forEach((token, index) => {
    const level = data.levels[index];
    const step = data.scale[level];
    token.className = `token ${data.tokens.mark[index]} ${look(step, level)}`;
    token.classList.toggle("found", found.has(index));
    token.classList.toggle("faded", Boolean(passing) && !passing.has(index));
    token.querySelector(".rows")?.remove();
    if (data.beside.length) token.append(marks(data.beside, index));
    token.setAttribute("aria-label", `${spoken(data.tokens.text[index])}, ${step ? step.label : "no value"}`);
  });
  const without = data.levels.filter((level) => level < 0).length;
  const nothing = without ? [entry({ label: "no value", count: without.toLocaleString("en") })] : [];
  room.legend.replaceChildren(...data.scale.map((step, level) => entry(step, level, data.beside.length > 0)), ...nothing, ...names(data));
}

// Below a token, a mark for each checkpoint beside the first: all rows of a line of text are aligned by their tokens.
function marks(rows, index) {
  const stack = make("span", "rows");
  stack.setAttribute("aria-hidden", "true");
  rows.forEach(({ levels, scale }, at) => {
    const step = scale[levels[index]];
    const mark = make("i", step ? `row-${at} step-${levels[index]}` : "none");
    mark.dataset.step = step ? step.short : "–";
    stack.append(mark);
  });
  return stack;
}

const fill = (step, level, at) =>
  `.row-${at}.step-${level} { background: light-dark(${step.light}, ${step.dark}); color: light-dark(${step.ink_light}, ${step.ink_dark}); }`;

function names({ card, beside }) {
  if (!beside.length) return [];
  return [make("span", "", `Rows: ${[`${card.checkpoint} (text)`, ...beside.map((row) => row.checkpoint)].join(", ")}`)];
}

const rule = (step, level) =>
  `.token.level-${level} { --fill: light-dark(${step.light}, ${step.dark}); --lines: ${step.lines};` +
  ` color: light-dark(${step.ink_light}, ${step.ink_dark}); }`;

const spoken = (word) => word.trim() || (word.includes("\n") ? "new line" : "space");

const look = (step, level) => (step?.light ? `level-${level}${step.dotted ? " dotted" : ""}` : "plain");

function entry(step, level, numbered) {
  const item = document.createElement("span");
  const swatch = make("span", `token ${look(step, level)}`, " Aa ");
  item.append(swatch, numbered ? `${step.short}: ${step.label}` : step.label);
  if (step.share !== undefined) item.append(bar(step.share));
  item.append(make("span", "count", step.count));
  return item;
}

// ---- finding

// A new search goes to its first place; the buttons go on from the current token.
function seek(room, data) {
  const sought = data.found.join();
  const isNew = sought !== room.sought;
  room.sought = sought;
  room.firsts = data.found.filter((index, at) => data.found[at - 1] !== index - 1);
  if (isNew && room.firsts.length) go(room, room.firsts[0]);
  const step = (label, forward) => {
    const button = make("button", "", label);
    button.onclick = () => go(room, another(room, forward));
    return button;
  };
  const count = `${room.firsts.length} ${room.firsts.length === 1 ? "place" : "places"}`;
  room.finds.replaceChildren(...(room.firsts.length ? [count, step("previous", false), step("next", true)] : []));
}

function another({ firsts, current }, forward) {
  return forward ? firsts.find((index) => index > current) ?? firsts[0] : firsts.findLast((index) => index < current) ?? firsts.at(-1);
}

function go(room, index) {
  move(room, index);
  room.tokens[index].scrollIntoView({ block: "center" });
}

// ---- moving

const indexOf = (token) => Number(token.dataset.index);

function press(room, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key !== "Tab") event.stopPropagation(); // the app reruns on r and opens a dialog on c
  const target = destination(room, event.key);
  if (target === undefined) return;
  event.preventDefault();
  room.tokens[target].focus();
}

function destination(room, key) {
  const end = room.tokens.length - 1;
  switch (key) {
    case "ArrowRight": return Math.min(end, room.current + 1);
    case "ArrowLeft": return Math.max(0, room.current - 1);
    case "ArrowDown": return lineAway(room, 1);
    case "ArrowUp": return lineAway(room, -1);
    case "Home": return 0;
    case "End": return end;
  }
}

// The token of the next line whose left edge is closest to the current one's.
function lineAway(room, direction) {
  const here = room.tokens[room.current].getClientRects()[0];
  let best = room.current, line = null, gap = Infinity;
  for (let index = room.current + direction; room.tokens[index]; index += direction) {
    const box = room.tokens[index].getClientRects()[0];
    if (!box || Math.abs(box.top - here.top) < here.height / 2) continue;
    line ??= box.top;
    if (Math.abs(box.top - line) > here.height / 2) break;
    if (Math.abs(box.left - here.left) < gap) [best, gap] = [index, Math.abs(box.left - here.left)];
  }
  return best;
}

function move(room, index) {
  if (index === room.current) return describe(room, index);
  select(room, index);
  toUrl(index);
}

// One token at a time can be reached by Tab, so that a second Tab leaves the passage.
function select(room, index) {
  if (index !== room.current) {
    mark(room.tokens[room.current], false);
    mark(room.tokens[index], true);
    if (room.current === null && index > 0) room.tokens[index].scrollIntoView({ block: "center" });
    room.current = index;
  }
  describe(room, index);
}

function mark(token, chosen) {
  if (!token) return;
  token.tabIndex = chosen ? 0 : -1;
  token.setAttribute("aria-selected", chosen);
}

function fromUrl(data) {
  const asked = Number(new URLSearchParams(location.search).get("position"));
  return Number.isInteger(asked) && asked > 0 && asked < data.tokens.text.length ? asked : 0;
}

function toUrl(index) {
  const url = new URL(location.href);
  if (index) url.searchParams.set("position", index);
  else url.searchParams.delete("position");
  history.replaceState(history.state, "", url);
}

// ---- the card

function describe(room, index) {
  const { tokens, card } = room.data;
  const at = (column) => column?.[index] ?? null;
  const next = index + 1 < tokens.text.length ? quoted(tokens.text[index + 1]) : "nothing: the sequence ends here";
  const title = make("h3", "");
  title.append(quoted(tokens.text[index]), " → ", next);
  const place = make("p", "faint", `position ${index} of sequence ${card.sequence}, token id ${at(card.token_id)}`);
  room.card.replaceChildren(title, place, facts(card, at), ...others(room.data, index), ...losses(card, at), ...probabilities(card, at),
    make("p", "faint keys", "← → ↑ ↓ move, Home and End jump, Tab leaves the text"));
}

function quoted(word) {
  return make("code", "", shown(word));
}

function facts(card, at) {
  const list = document.createElement("dl");
  const add = (term, value) => list.append(make("dt", "", term), make("dd", "", value));
  add("Depth", at(card.depth) === null ? "–" : `${at(card.depth)} of ${card.recursions}`);
  add("Vanilla loss", nats(at(card.vanilla_loss)));
  if (at(card.loss_percentile) !== null) add("Harder than", `${at(card.loss_percentile).toFixed(1)}% of the file`);
  add("Vanilla entropy", nats(at(card.vanilla_entropy)));
  add("Own entropy", nats(at(card.entropy)));
  add("Benefit of depth", signed(at(card.benefit), " nats"));
  return list;
}

function others({ beside }, index) {
  if (!beside.length) return [];
  return [table(["Under", "the same quantity"], beside.map(({ checkpoint, levels, scale }) => [checkpoint, scale[levels[index]]?.label ?? "no value"]))];
}

function losses(card, at) {
  if (!card.policies.length) return [];
  const rows = card.policies.map(({ label, loss, open }) => [label, number(at(loss)), number(at(open))]);
  return [table(["Loss under policy, nats", "its gate", "open gate"], rows)];
}

function probabilities(card, at) {
  if (!card.probabilities.length) return [];
  const rows = card.probabilities.map((column, index) => [`Recursion ${index + 1}`, meter(at(column))]);
  return [table(["Router probability", ""], rows)];
}

function meter(value) {
  if (value === null) return "not a candidate";
  const cell = document.createElement("span");
  cell.append(bar(value), number(value));
  return cell;
}

function bar(share) {
  const element = make("span", "meter");
  element.append(document.createElement("i"));
  element.firstChild.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return element;
}

function table(head, rows) {
  const element = document.createElement("table");
  const line = (cells, tag) => {
    const row = element.insertRow();
    for (const cell of cells) row.append(make(tag, "", cell));
  };
  line(head, "th");
  for (const row of rows) line(row, "td");
  return element;
}

const number = (value) => (value === null ? "–" : value.toFixed(3));
const nats = (value) => (value === null ? "–" : `${value.toFixed(3)} nats`);
const signed = (value, unit) => (value === null ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}${unit}`);

function make(tag, name, content = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (content !== "") element.append(content); // a string becomes a text node, never markup
  return element;
}
