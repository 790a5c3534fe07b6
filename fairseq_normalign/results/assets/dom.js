"use strict";
// Elements, numbers and the box that tells what is under the mouse. Text is always set as text.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function html(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

// A number with so many decimals, and commas between thousands.
function fixed(value, decimals) {
  const text = value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return text.replace(/^-(?=[0.]*$)/, "").replace("-", "−");
}

// A difference with its sign.
function signed(value, decimals) {
  const text = fixed(value, decimals);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

// What JSON gave; nothing is a dash.
function shown(value, decimals) {
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "number" ? fixed(value, decimals) : String(value);
}

// As many decimals for all numbers: none if they are counts.
function decimalsOf(numbers, decimals) {
  return numbers.every((value) => typeof value !== "number" || Number.isInteger(value)) ? 0 : decimals;
}

// A number and its unit stay on one line.
const NO_BREAK = "\u00a0";

// The smallest and the largest of many numbers.
function ends(numbers) {
  return numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function shortened(text, length) {
  const letters = Array.from(text);
  return letters.length > length ? letters.slice(0, length - 1).join("") + "…" : text;
}

const FROM_RIGHT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

// Whether a text is written from right to left: its first letter decides.
function isRightToLeft(words) {
  const text = words.join(" ");
  const first = text.match(/\p{L}/u);
  return first !== null && FROM_RIGHT.test(first[0]);
}

const tip = {
  box: null,
  show(text, x, y) {
    this.box = this.box || document.getElementById("tip");
    this.box.textContent = text;
    this.box.hidden = false;
    const width = this.box.offsetWidth, height = this.box.offsetHeight;
    const left = Math.max(4, Math.min(x + 14, window.innerWidth - width - 8));
    const above = y + 18 + height > window.innerHeight;
    this.box.style.left = `${left}px`;
    this.box.style.top = `${Math.max(4, above ? y - height - 10 : y + 18)}px`;
  },
  hide() {
    if (this.box) this.box.hidden = true;
  },
  beside(node, text) {
    const place = node.getBoundingClientRect();
    this.show(text, place.left + place.width / 2, place.bottom - 12);
  },
  above(node, text) {
    const place = node.getBoundingClientRect();
    this.show(text, place.left, place.bottom);
    this.box.style.top = `${Math.max(4, place.top - this.box.offsetHeight - 8)}px`;
  },
};

// What a finger has touched stays told until the next touch elsewhere.
const touched = {
  node: null,
  leave: null,
  hold(node, leave) {
    this.node = node;
    this.leave = leave;
  },
  release(event) {
    if (this.node === null || this.node.contains(event.target)) return;
    this.leave();
    this.node = null;
  },
};
document.addEventListener("pointerdown", (event) => touched.release(event), true);

// Calls look with what the mouse is over or a finger touches, and leave when that is over.
function watch(node, look, leave) {
  const unlessTouch = (act) => (event) => { if (event.pointerType !== "touch") act(event); };
  node.addEventListener("pointermove", unlessTouch(look));
  node.addEventListener("pointerleave", unlessTouch(leave));
  node.addEventListener("click", (event) => {
    look(event);
    touched.hold(node, leave);
  });
}

// On paper nothing scrolls and nothing can be chosen: what has another look there is drawn again.
const paper = {
  isOn: false,
  acts: [],
  width: 660, // A4 and Letter have that, between their margins
  listen(act) { this.acts.push(act); },
  turn(isOn) {
    if (isOn === this.isOn) return;
    this.isOn = isOn;
    document.documentElement.toggleAttribute("data-paper", isOn);
    for (const act of this.acts) act(isOn);
  },
};
window.addEventListener("beforeprint", () => paper.turn(true));
window.addEventListener("afterprint", () => paper.turn(false));
window.matchMedia("print").addEventListener("change", (event) => paper.turn(event.matches));

// A drop-down list of names; answers with the place of what is chosen.
function menu(label, names, chosen, change) {
  const select = html("select", { "aria-label": label });
  names.forEach((name, place) => select.append(html("option", { value: place }, name)));
  select.value = String(chosen);
  select.addEventListener("change", () => change(Number(select.value)));
  return html("label", { class: "menu" }, html("span", {}, label), select);
}

// Numbers behind a picture, as a table that is made when it is opened.
function asTable(make) {
  const details = html("details", { class: "numbers" }, html("summary", {}, "Numbers as a table"));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}

// Base64 of deflated bytes, unpacked.
async function unpacked(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
