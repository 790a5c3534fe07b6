// The browser of alignments: a list of sentence pairs, and one pair in one way or in two.

const LINKED = 0x80, STEPS_OF_SHARE = 0x7f, UNDEFINED = 0xffff;
const EOS = "</s>";
const SMALLEST = 8.5, SMALLEST_PRINTED = 12; // cells of a map, in pixels
const HALF_A_PAGE = 440; // pixels that all rows together have on paper
const LEAST_SHOWN = 0.02; // a smaller share has no line
const SORTS = {
  "corpus order": (browser) => browser.pairs.map((pair) => -pair.line),
  "AER of A": (browser) => browser.aers(browser.panels[0]),
  "AER of B": (browser) => browser.aers(browser.panels[1]),
  "A worse than B": (browser) => browser.differences(),
  "length": (browser) => browser.pairs.map((pair) => pair.source.length + pair.target.length),
  "disagreement": (browser) => browser.disagreements(),
};
const NEED_GOLD = ["AER of A", "AER of B", "A worse than B"];

const FIELDS = ["method", "layer", "head", "step"]; // of an evidence

// One way to align: a system and one of its evidences.
class Way {
  constructor(systems, system, evidence) {
    this.systems = systems;
    this.system = system;
    this.evidence = evidence;
  }

  // The same now; menus change a way while others wait for what they have asked.
  copy() { return new Way(this.systems, this.system, this.evidence); }

  get evidences() { return this.systems[this.system].evidences; }

  get place() { return this.evidences[this.evidence]; }

  get soft() { return this.systems[this.system].soft; }

  get key() { return `${this.system}.${this.evidence}`; }

  get title() {
    const { method, layer, head, step } = this.place;
    if (!this.soft) return `${this.systems[this.system].name}: links`;
    const where = layer === null ? "all layers" : `layer ${layer}`;
    const part = head === null ? "" : `, head ${head}`;
    const name = this.systems.length > 1 ? `${this.systems[this.system].name}: ` : "";
    return `${name}${method}, ${where}${part}, step ${step}`;
  }

  // The values that a field can have, the fields before it being as they are.
  choices(field) {
    const fixed = FIELDS.slice(0, FIELDS.indexOf(field));
    const alike = this.evidences.filter((place) => fixed.every((name) => place[name] === this.place[name]));
    return [...new Set(alike.map((place) => place[field]))];
  }

  // The same with another value of a field; what does not go with it takes its first value.
  set(field, value) {
    const wanted = { ...this.place, [field]: value };
    let near = this.evidences.map((place, number) => ({ place, number }));
    for (const name of [field, ...FIELDS]) {
      const same = near.filter(({ place }) => place[name] === wanted[name]);
      near = same.length ? same : near;
    }
    this.evidence = near[0].number;
  }

  setSystem(number) {
    const wanted = this.place;
    this.system = number;
    this.evidence = 0;
    const isWanted = (place) => FIELDS.every((name) => place[name] === wanted[name]);
    this.evidence = this.evidences.findIndex(isWanted);
    if (this.evidence < 0) this.evidence = this.systems[number].openings[0];
  }
}

// One pair as one way sees it.
class Soft {
  constructor(cells, pair, levels) {
    this.cells = cells;
    this.columns = pair.source.length + 1;
    this.rows = pair.target.length;
    this.levels = levels;
  }

  share(row, column) { return (this.cells[row * this.columns + column] & STEPS_OF_SHARE) / this.levels; }

  linked(row, column) { return (this.cells[row * this.columns + column] & LINKED) !== 0; }

  rowMaximum(row) {
    let most = 0;
    for (let column = 0; column < this.columns; column++) most = Math.max(most, this.share(row, column));
    return most;
  }

  links() {
    const links = [];
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < this.columns; column++) if (this.linked(row, column)) links.push([column, row]);
    }
    return links;
  }
}

// Counts of links against gold: error rate, precision and recall.
function scores(links, pair) {
  const key = ([source, target]) => `${source}-${target}`;
  const sure = new Set(pair.sure.map(key)), possible = new Set(pair.possible.map(key));
  const inSure = links.filter((link) => sure.has(key(link))).length;
  const inPossible = inSure + links.filter((link) => possible.has(key(link))).length;
  const ratio = (part, whole) => whole ? part / whole : null;
  const right = ratio(inPossible + inSure, links.length + sure.size);
  const aer = right === null ? null : 1 - right;
  return { aer, precision: ratio(inPossible, links.length), recall: ratio(inSure, sure.size) };
}

// 1 - F1 of the links of two; 0 if neither has any.
function disagreement(one, other) {
  const ours = one.links(), theirs = other.links();
  const common = ours.filter(([source, target]) => other.linked(target, source)).length;
  const total = ours.length + theirs.length;
  return total ? 1 - 2 * common / total : 0;
}

function percent(share) {
  return share === null ? "–" : `${(100 * share).toFixed(1)}${NO_BREAK}%`;
}

class Browser {
  constructor(contents) {
    this.contents = contents;
    this.pairs = contents.pairs;
    this.systems = contents.systems;
    this.hasGold = this.pairs.some((pair) => pair.sure);
    this.panels = this.openingPanels();
    this.compares = this.panels[0].key !== this.panels[1].key;
    this.byRow = true;
    this.sort = "corpus order";
    this.upwards = false;
    this.query = "";
    this.chosen = 0;
    this.errorRates = new Map();
    this.found = new Map(); // disagreements, by the keys of both panels
    this.kept = new Map(); // the last sentences that were unpacked
  }

  // The first method of the first system; beside it that of the second system, or a second method.
  openingPanels() {
    const [first, ...others] = this.systems;
    const left = new Way(this.systems, 0, first.openings[0]);
    if (others.length) {
      const right = new Way(this.systems, 0, first.openings[0]);
      right.setSystem(1);
      return [left, right];
    }
    return [left, new Way(this.systems, 0, first.openings[Math.min(1, first.openings.length - 1)])];
  }

  // Of every pair; null where there is neither a link nor gold.
  async aers(way) {
    const { system, evidence, evidences } = way; // as it is now: it may change while we wait
    if (!this.errorRates.has(system)) {
      const bytes = await unpacked(`aer-${system}`);
      this.errorRates.set(system, new DataView(bytes.buffer));
    }
    const rates = this.errorRates.get(system);
    return this.pairs.map((_, number) => {
      const rate = rates.getUint16(2 * (number * evidences.length + evidence), true);
      return rate === UNDEFINED ? null : rate / 1000;
    });
  }

  async differences() {
    const [left, right] = await Promise.all(this.panels.map((way) => this.aers(way)));
    return left.map((aer, number) => aer === null || right[number] === null ? null : aer - right[number]);
  }

  bytesOf(id) {
    if (!this.kept.has(id)) {
      if (this.kept.size > 3) this.kept.delete(this.kept.keys().next().value);
      this.kept.set(id, unpacked(id));
    }
    return this.kept.get(id);
  }

  async softOf(way, number) {
    const { system, evidence, place } = way; // as it is now
    const pair = this.pairs[number];
    const size = pair.target.length * (pair.source.length + 1);
    const bytes = await this.bytesOf(`soft-${system}-${number}`);
    const levels = this.contents.levels[place.head === null ? "layers" : "heads"];
    return new Soft(bytes.subarray(evidence * size, (evidence + 1) * size), pair, levels);
  }

  // 1 - F1 of the links of both panels, for every pair; nothing if another order is asked for.
  async disagreements() {
    const asked = this.asked;
    const ways = this.panels.map((way) => way.copy());
    const key = ways.map((way) => way.key).join(" ");
    const values = this.found.get(key) ?? []; // as far as an earlier comparison came
    this.found.set(key, values);
    for (let number = values.length; number < this.pairs.length; number++) {
      if (number % 50 === 0) this.say(`Comparing ${number} of ${this.pairs.length} pairs …`);
      const [left, right] = await Promise.all(ways.map((way) => this.softOf(way, number)));
      if (asked !== this.asked) return null;
      values.push(disagreement(left, right));
    }
    return values;
  }

  say(text) { this.status.textContent = text; }

  // ---- The list ----

  draw() {
    this.list = html("ul", { class: "pairs", role: "listbox", tabindex: "0", "aria-label": "Sentence pairs" });
    this.status = html("p", { class: "note", role: "status", "aria-live": "polite" });
    this.view = html("div", { class: "pair" });
    const search = html("input", {
      type: "search",
      id: "search",
      placeholder: "Words, or a line number",
      "aria-label": "Search in both sentences",
    });
    search.addEventListener("input", () => { this.query = search.value; this.refill(); });
    search.addEventListener("keydown", (event) => {
      if (!["Enter", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      this.filling.then(() => {
        if (this.order.length) this.choose(this.order[0]);
        if (event.key === "ArrowDown") this.list.focus();
      });
    });
    const sorts = Object.keys(SORTS).filter((name) => this.hasGold || !NEED_GOLD.includes(name));
    const order = html("button", { type: "button", "aria-pressed": "false" }, "Reverse");
    order.addEventListener("click", () => {
      this.upwards = !this.upwards;
      order.setAttribute("aria-pressed", String(this.upwards));
      this.refill();
    });
    const sorting = menu("sort by", sorts, 0, (place) => { this.sort = sorts[place]; this.refill(); });
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) this.choose(Number(item.dataset.number));
    });
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    this.list.addEventListener("keydown", (event) => this.moveBy(steps[event.key], event));
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest && event.target.closest("input:not([type=checkbox]), select, textarea");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") { event.preventDefault(); search.focus(); }
      else this.moveBy({ n: 1, p: -1 }[event.key], event);
    });
    const sorter = html("div", { class: "sorting" }, sorting, order);
    const keys = html("p", { class: "note" }, "Keys: n and p go to the next and previous pair, / searches.");
    const left = html("div", { class: "finder" }, search, sorter, this.status, this.list, keys);
    const heading = html("h2", { id: "browser", tabindex: "-1" }, "Alignments");
    const notes = this.contents.notes.map((note) => html("p", { class: "note" }, note));
    const body = html("div", { class: "browser" }, left, this.view);
    const section = html("section", { "aria-labelledby": "browser" }, heading, body, notes);
    this.filling = this.fill();
    this.filling.then(() => this.choose(this.order.length ? this.order[0] : 0, false));
    new ResizeObserver(() => this.fit()).observe(this.view);
    paper.listen(() => this.paint());
    return section;
  }

  // Fills the list anew, from its top.
  refill() {
    this.filling = this.fill().then(() => { this.list.scrollTop = 0; });
  }

  // Draws the pair anew if there is more or less room for it.
  fit() {
    if (!this.shown || paper.isOn) return;
    if (Math.abs(this.view.clientWidth - this.painted) > 8) this.paint();
    else this.shown.strip.draw();
  }

  matches(pair) {
    const query = this.query.trim().toLowerCase();
    if (!query) return true;
    if (/^#?\d+$/.test(query) && pair.line === Number(query.replace("#", ""))) return true;
    return [pair.source, pair.target].some((words) => words.join(" ").toLowerCase().includes(query));
  }

  async fill() {
    const asked = this.asked = Symbol("order");
    const values = await SORTS[this.sort](this);
    if (asked !== this.asked) return; // the order was changed meanwhile
    const sign = this.upwards ? -1 : 1;
    this.values = values;
    this.order = this.pairs.map((_, number) => number).filter((number) => this.matches(this.pairs[number]));
    const isLast = (number) => Number(values[number] === null);
    this.order.sort((a, b) => isLast(a) - isLast(b) || sign * (values[b] - values[a]) || a - b);
    this.list.replaceChildren(...this.order.map((number) => this.item(number)));
    this.list.dataset.sorted = this.sort + (this.upwards ? ", reversed" : "");
    this.say(`${this.order.length} of ${this.pairs.length} pairs`);
    this.markChosen(false);
  }

  item(number) {
    const pair = this.pairs[number];
    const told = this.toldOf(this.values[number]);
    return html("li", { role: "option", id: `pair-${number}`, "data-number": number },
      html("span", { class: "where" }, `${pair.line}`), html("span", { class: "value" }, told),
      html("span", { class: "text", dir: "auto" }, shortened(pair.source.join(" "), 90)));
  }

  toldOf(value) {
    if (this.sort === "corpus order") return "";
    if (this.sort === "length") return `${value} words`;
    if (this.sort === "A worse than B" && value !== null) return `${signed(100 * value, 1)} points`;
    return percent(value);
  }

  moveBy(steps, event) {
    if (steps === undefined || !this.order.length) return;
    event.preventDefault();
    const at = this.order.indexOf(this.chosen);
    const place = at < 0 ? 0 : Math.min(Math.max(at + steps, 0), this.order.length - 1);
    this.choose(this.order[place]);
  }

  markChosen(scroll) {
    for (const item of this.list.querySelectorAll("[aria-selected]")) item.removeAttribute("aria-selected");
    const item = document.getElementById(`pair-${this.chosen}`);
    if (!item) return;
    item.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", item.id);
    if (scroll) {
      const top = item.offsetTop - this.list.offsetTop;
      const lowest = top + item.offsetHeight - this.list.clientHeight; // it is just in sight
      if (top < this.list.scrollTop) this.list.scrollTop = top;
      else if (lowest > this.list.scrollTop) this.list.scrollTop = lowest;
    }
  }

  choose(number, scroll = true) {
    this.chosen = number;
    this.markChosen(scroll);
    return this.show();
  }

  // ---- One pair ----

  async show() {
    const asked = this.showing = Symbol("pair");
    const pair = this.pairs[this.chosen];
    if (!pair) return;
    const ways = this.compares ? this.panels : this.panels.slice(0, 1);
    const softs = await Promise.all(ways.map((way) => this.softOf(way, this.chosen)));
    if (asked !== this.showing) return; // another pair was chosen meanwhile
    this.shown = { pair, ways, softs };
    this.paint();
  }

  // Draws what is shown, for the room that there is.
  paint() {
    if (!this.shown) return;
    const { pair, ways, softs } = this.shown;
    const strip = this.shown.strip = this.strip(pair, ways, softs);
    const { beside, room } = this.roomFor(pair, ways.length);
    this.frames = [];
    const panels = ways.map((way, number) => this.panel(pair, way, softs[number], number, strip, room));
    const focus = document.activeElement && document.activeElement.closest("[data-menu]");
    const kept = focus ? focus.dataset.menu : null;
    const title = html("h3", {}, `Pair ${pair.line}`);
    const options = html("div", { class: "options" }, title, this.toggles());
    const maps = html("div", { class: `panels${beside ? " two" : ""}` }, panels);
    tip.hide();
    this.view.replaceChildren(options, strip.node, maps, this.key(ways.length > 1));
    this.painted = this.view.clientWidth;
    strip.draw();
    strip.toStart();
    if (kept) {
      const named = `[data-menu="${kept}"]`;
      const again = this.view.querySelector(`${named} select, input${named}, div${named}`);
      if (again) again.focus({ preventScroll: true });
    }
  }

  // Two maps stand side by side if the window is wide; on paper, if their words can be read there.
  roomFor(pair, count) {
    const whole = paper.isOn ? paper.width : this.view.clientWidth;
    const half = whole / 2 - 24;
    const isWide = paper.isOn ? this.sizeIn(half, pair) >= SMALLEST_PRINTED : window.innerWidth > 900; // as in the style
    const beside = count > 1 && isWide;
    return { beside, room: Math.max(260, beside ? half : whole - 24) };
  }

  // How large the cells of a map can be.
  sizeIn(room, pair) {
    const names = labelRoom(pair.target, LETTER) + 20;
    const down = paper.isOn ? HALF_A_PAGE / pair.target.length : 26;
    return Math.max(SMALLEST, Math.min(26, down, (room - names) / (pair.source.length + 1)));
  }

  toggles() {
    const box = (name, label, isOn, change) => {
      const input = html("input", { type: "checkbox", "data-menu": name });
      input.checked = isOn;
      input.addEventListener("change", () => { change(input.checked); this.show(); });
      return html("label", { class: "toggle" }, input, label);
    };
    return html("div", { class: "toggles" },
      box("two", "side by side", this.compares, (isOn) => { this.compares = isOn; }),
      box("rows", "colours by row", this.byRow, (isOn) => { this.byRow = isOn; }));
  }

  menus(way, number) {
    const letter = "AB"[number];
    const change = (act) => { act(); this.changed(); };
    const pick = (name, label, values, value, names, act) => {
      const node = menu(label, names, values.indexOf(value), (place) => change(() => act(values[place])));
      node.dataset.menu = `${letter}-${name}`;
      return node;
    };
    const parts = [];
    if (this.systems.length > 1) {
      const numbers = this.systems.map((_, place) => place);
      const names = this.systems.map((system) => system.name);
      parts.push(pick("system", "of", numbers, way.system, names, (value) => way.setSystem(value)));
    }
    const nameOf = (value) => value === null ? "all" : String(value);
    for (const field of way.soft ? FIELDS : []) {
      const values = way.choices(field);
      const names = values.map(nameOf);
      parts.push(pick(field, field, values, way.place[field], names, (value) => way.set(field, value)));
    }
    return html("div", { class: "menus", role: "group", "aria-label": `Panel ${letter}` }, parts);
  }

  changed() {
    this.show();
    if (!["corpus order", "length"].includes(this.sort)) this.fill();
  }

  panel(pair, way, soft, number, strip, room) {
    const letter = "AB"[number];
    const columns = way.soft ? [...pair.source, EOS] : pair.source;
    const size = this.sizeIn(room, pair);
    const frame = heatMap({
      title: `${letter}: ${way.title}`,
      rows: pair.target,
      columns,
      rowTitle: `target (${this.systems[way.system].languages[1]})`,
      columnTitle: `source (${this.systems[way.system].languages[0]})`,
      width: size,
      height: size,
      strength: (row, column) => {
        const most = this.byRow ? soft.rowMaximum(row) : 1;
        return most ? soft.share(row, column) / most : 0;
      },
      describe: (row, column) => this.describe(pair, way, soft, row, column),
      extras: (row, column, box) => this.marks(pair, soft, row, column, box),
      over: (place) => goldFrames(pair, place),
      moved: (row, column) => {
        strip.follow(number, row, column);
        this.frames.forEach((other, at) => { if (at !== number) other.follow(row, column); });
      },
    });
    frame.dataset.menu = `${letter}-map`; // keeps the focus when another pair is chosen
    this.frames.push(frame);
    const links = soft.links();
    const told = [links.length === 1 ? "1 link" : `${links.length} links`];
    if (pair.sure) {
      const { aer, precision, recall } = scores(links, pair);
      told.unshift(`AER ${percent(aer)}`, `precision ${percent(precision)}`, `recall ${percent(recall)}`);
    }
    const shares = this.byRow ? ["0", "1", "share of the row's maximum"] : ["0", "100 %", "share of the row"];
    const colours = way.soft ? scale(...shares) : null;
    const sign = html("b", { class: "letter" }, letter);
    const caption = html("figcaption", {}, sign, ` ${way.title}`);
    const numbers = html("p", { class: "told" }, told.join(", "));
    const table = asTable(() => this.linkTable(pair, way, soft));
    const menus = this.menus(way, number);
    return html("figure", { class: `panel ${letter}` }, caption, menus, numbers, frame, colours, table);
  }

  describe(pair, way, soft, row, column) {
    const source = column < pair.source.length ? pair.source[column] : EOS;
    const target = pair.target[row];
    const share = wholePercent(soft.share(row, column));
    const words = way.soft ? `“${target}” takes ${share} from “${source}”` : `“${target}” and “${source}”`;
    const parts = [words];
    if (soft.linked(row, column)) parts.push("linked");
    const is = (links) => links && links.some(([s, t]) => s === column && t === row);
    if (is(pair.sure)) parts.push("gold: sure");
    if (is(pair.possible)) parts.push("gold: possible");
    return parts.join("; ");
  }

  marks(pair, soft, row, column, box) {
    if (!soft.linked(row, column)) return null;
    const middle = { cx: box.x + box.width / 2, cy: box.y + box.height / 2 };
    return [svg("circle", { ...middle, r: Math.max(2, box.width / 7), class: "link" })];
  }

  linkTable(pair, way, soft) {
    const rows = soft.links().map(([source, target]) => {
      const is = (links) => links && links.some(([s, t]) => s === source && t === target);
      const gold = is(pair.sure) ? "sure" : is(pair.possible) ? "possible" : "";
      const share = way.soft ? [100 * soft.share(target, source)] : [];
      return [`${source + 1} ${pair.source[source]}`, `${target + 1} ${pair.target[target]}`, ...share, gold];
    });
    const share = way.soft ? ["share in %"] : [];
    return drawTable({ columns: ["source", "target", ...share, "gold"], rows, title: "Links", decimals: 0 });
  }

  key(two) {
    const items = [["link", "link"]];
    if (this.hasGold) items.push(["sure", "gold: sure"], ["possible", "gold: possible"]);
    items.push(["line-a", two ? "link of A alone" : "link"]);
    if (two) items.push(["line-b", "link of B alone"], ["line-both", "link of both"]);
    if (this.hasGold) items.push(["line-gold", "sure link that is missing"]);
    const list = items.map(([name, text]) => html("li", {}, keySign(name), text));
    return html("ul", { class: "legend" }, list);
  }

  // ---- The two sentences and the lines between them ----

  strip(pair, ways, softs) {
    const source = sentence(pair.source, "source"), target = sentence(pair.target, "target");
    const lines = svg("svg", { class: "lines", "aria-hidden": "true" });
    const inner = html("div", { class: "strip" }, source, target, lines);
    const attributes = {
      class: "scroll stripped",
      tabindex: "0",
      "data-menu": "strip",
      role: "region",
      "aria-label": "The two sentences and their links",
    };
    const node = html("div", attributes, inner);
    const hard = hardLines(pair, softs);
    let hovered = null;
    const draw = () => drawLines(lines, inner, source, target, hovered ? softLines(softs, hovered) : hard);
    const mark = (cells) => {
      for (const word of inner.querySelectorAll(".on")) word.classList.remove("on");
      for (const [side, place] of cells) side.children[place]?.classList.add("on");
    };
    const follow = (number, row, column) => {
      hovered = row === null ? null : { number, side: "cell", row, column };
      mark(row === null ? [] : [[source, column], [target, row]]);
      draw();
    };
    const leave = () => {
      hovered = null;
      mark([]);
      draw();
      tip.hide();
    };
    watch(inner, (event) => {
      const word = event.target.closest(".word");
      if (!word) return leave();
      const { side } = word.dataset, place = Number(word.dataset.place);
      if (hovered && hovered.side === side && hovered.place === place) return;
      hovered = { side, place };
      mark([[word.parentNode, place]]);
      draw();
      const text = describeWord(pair, ways, softs, side, place);
      if (side === "source") tip.above(word, text);
      else tip.beside(word, text);
    }, leave);
    // Opens where a sentence begins that is too long for the window, with the other one beside it.
    const toStart = () => {
      const long = [source, target].find((words) => widthOf(words) > node.clientWidth);
      if (!long || paper.isOn) return;
      const isFromRight = long.dir === "rtl";
      for (const words of [source, target]) words.style.alignSelf = isFromRight ? "flex-end" : "flex-start";
      node.scrollLeft = isFromRight ? node.scrollWidth : 0;
      draw();
    };
    return { node, draw, follow, toStart };
  }
}

// The words of one side.
function sentence(words, side) {
  const spans = words.map((word, place) => {
    return html("span", { class: "word", dir: "auto", "data-side": side, "data-place": place }, word);
  });
  return html("div", { class: `words ${side}`, dir: isRightToLeft(words) ? "rtl" : "ltr" }, spans);
}

function wholePercent(share) {
  return `${(100 * share).toFixed(0)}${NO_BREAK}%`;
}

// From the first word to the last one.
function widthOf(words) {
  const boxes = [...words.children].map((word) => word.getBoundingClientRect());
  return Math.max(...boxes.map((box) => box.right)) - Math.min(...boxes.map((box) => box.left));
}

const MOST_TOLD = 3; // words that a word takes most from

// What a target word takes, or what is taken from a source word, in each way.
function describeWord(pair, ways, softs, side, place) {
  const isTarget = side === "target";
  const others = isTarget ? [...pair.source, EOS] : pair.target;
  const isSoft = ways.some((way) => way.soft);
  const told = ways.map((way, number) => {
    const soft = softs[number];
    const at = others.map((word, other) => {
      const [row, column] = isTarget ? [place, other] : [other, place];
      return { word, share: way.soft ? soft.share(row, column) : Number(soft.linked(row, column)) };
    });
    const most = at.filter((one) => one.share > LEAST_SHOWN).sort((a, b) => b.share - a.share).slice(0, MOST_TOLD);
    const from = isTarget ? "from" : "by";
    const parts = most.map(({ word, share }) => way.soft ? `${wholePercent(share)} ${from} “${word}”` : `“${word}”`);
    const listed = parts.join(", ") || (way.soft ? "nothing" : "no word");
    const letter = ways.length > 1 ? `${"AB"[number]}: ` : "";
    const linked = way.soft || !isSoft ? "" : "is linked with ";
    return `${letter}${linked}${listed}`;
  });
  const verb = !isSoft ? "is linked with" : isTarget ? "takes" : "is taken";
  return `“${pair[side][place]}” ${verb} ${told.join("; ")}`;
}

// Gold links as frames: solid if sure, dotted if possible.
function goldFrames(pair, { left, above, width: size }) {
  if (!pair.sure) return [];
  const box = ([source, target], name) => {
    const corner = { x: left + source * size + 1, y: above + target * size + 1 };
    return svg("rect", { ...corner, width: size - 2, height: size - 2, class: name });
  };
  return [...pair.possible.map((link) => box(link, "possible")), ...pair.sure.map((link) => box(link, "sure"))];
}

function keySign(name) {
  const shapes = {
    link: () => svg("circle", { cx: 13, cy: 7, r: 3, class: "link" }),
    sure: () => svg("rect", { x: 7, y: 1, width: 12, height: 12, class: "sure" }),
    possible: () => svg("rect", { x: 7, y: 1, width: 12, height: 12, class: "possible" }),
  };
  const shape = shapes[name] ? shapes[name]() : svg("path", { d: "M1 7h24", class: name });
  return svg("svg", { width: 26, height: 14, "aria-hidden": "true" }, shape);
}

// The links of one way or two, told apart by who has them, and sure links that nobody has.
function hardLines(pair, softs) {
  const lines = [];
  const [first, second] = softs;
  for (const [source, target] of first.links()) {
    const both = second && second.linked(target, source);
    lines.push({ source, target, name: both ? "line-both" : "line-a", opacity: 0.85 });
  }
  for (const [source, target] of second ? second.links() : []) {
    if (!first.linked(target, source)) lines.push({ source, target, name: "line-b", opacity: 0.85 });
  }
  for (const [source, target] of pair.sure || []) {
    if (!softs.some((soft) => soft.linked(target, source))) lines.push({ source, target, name: "line-gold", opacity: 0.7 });
  }
  return lines;
}

// What the word under the mouse takes, or gives: the stronger, the wider the line.
function softLines(softs, hovered) {
  const lines = [];
  softs.forEach((soft, number) => {
    const name = number ? "line-b" : "line-a";
    const shift = softs.length > 1 ? 5 * number - 2.5 : 0; // lines of A and B stay apart
    const add = (source, target) => {
      const share = soft.share(target, source);
      if (share <= LEAST_SHOWN) return;
      lines.push({ source, target, name, shift, width: 0.6 + 5 * share, opacity: 0.3 + 0.7 * share });
    };
    const words = soft.columns - 1;
    if (hovered.side === "cell" && hovered.number === number) {
      if (hovered.column < words) lines.push({ source: hovered.column, target: hovered.row, name, width: 2.5, opacity: 1 });
    } else if (hovered.side === "target") for (let source = 0; source < words; source++) add(source, hovered.place);
    else if (hovered.side === "source") for (let target = 0; target < soft.rows; target++) add(hovered.place, target);
  });
  return lines;
}

function drawLines(lines, inner, source, target, links) {
  const box = inner.getBoundingClientRect();
  lines.setAttribute("width", inner.scrollWidth);
  lines.setAttribute("height", inner.scrollHeight);
  const middle = (word, shift = 0) => {
    const place = word.getBoundingClientRect();
    return { x: place.left - box.left + place.width / 2 + shift, top: place.top - box.top, bottom: place.bottom - box.top };
  };
  const paths = [];
  for (const link of links) {
    const one = source.children[link.source], other = target.children[link.target];
    if (!one || !other) continue;
    const from = middle(one, link.shift), to = middle(other, link.shift);
    const half = (from.bottom + to.top) / 2;
    const d = `M${from.x} ${from.bottom}C${from.x} ${half} ${to.x} ${half} ${to.x} ${to.top}`;
    const look = { class: link.name, "stroke-width": link.width || 1.6, opacity: link.opacity.toFixed(2) };
    paths.push(svg("path", { d, ...look }));
  }
  lines.replaceChildren(...paths);
}

const CANNOT_UNPACK = "This browser cannot unpack alignments; expected one with DecompressionStream: "
  + "Chrome or Edge 80, Firefox 113, Safari 16.4, or later.";

function drawBrowser(contents) {
  if (typeof DecompressionStream === "undefined") {
    const heading = html("h2", { id: "browser" }, "Alignments");
    const note = html("p", { class: "note" }, CANNOT_UNPACK);
    return html("section", { "aria-labelledby": "browser" }, heading, note);
  }
  return new Browser(contents).draw();
}
