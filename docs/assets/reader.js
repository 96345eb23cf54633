// Progress, guesses and keys. Everything is kept in this browser and sent nowhere.
// Without this script the pages lack nothing but these.
"use strict";

(() => {
  const PREFIX = "cuda-measured.";
  const all = (selector, root = document) => root.querySelectorAll(selector);

  function recall(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise;
    } catch {
      return otherwise; // no storage here, or somebody else's text in it
    }
  }

  function keep(name, value) {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch { /* it lasts as long as the page, then */ }
  }

  function make(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // --- Progress: which days were read.

  const known = recall("read", []);
  const read = new Set(Array.isArray(known) ? known : []);

  function tick(link, day) {
    const there = link.querySelector(".ev-tick");
    if (there && !read.has(day)) there.remove();
    if (!there && read.has(day)) {
      link.append(make("span", { class: "ev-tick", role: "img", "aria-label": "read" }, "✓"));
    }
  }

  function showProgress() {
    for (const cell of all("a[data-day]")) tick(cell, Number(cell.dataset.day));
    for (const link of all(".md-nav--primary a[href]")) {
      const match = /\/days\/0*(\d+)-/.exec(link.href);
      if (match) tick(link, Number(match[1]));
    }
    for (const button of all("[data-read]")) {
      button.setAttribute("aria-pressed", read.has(Number(button.dataset.read)));
    }
    const cells = [...all("a[data-day]")].map((cell) => Number(cell.dataset.day));
    const days = cells.length;
    const count = cells.filter((day) => read.has(day)).length;
    const text = count ? `You have read ${count} of the ${days}.` : "You have marked none as read.";
    for (const line of all(".ev-progress")) if (days) line.textContent = text;
  }

  function toggleRead(day) {
    if (!read.delete(day)) read.add(day);
    keep("read", [...read].sort((a, b) => a - b));
    showProgress();
  }

  function forget(button) {
    for (const name of ["read", "guesses", "keys"]) {
      try {
        localStorage.removeItem(PREFIX + name);
      } catch { /* there was nothing to forget */ }
    }
    read.clear();
    showProgress();
    for (const box of all(".ev-predict")) ask(box);
    for (const choice of all("[data-keys]")) choice.checked = true;
    button.nextElementSibling.textContent = "Forgotten.";
  }

  // --- Guesses: taken before the answer is shown, then held against it.

  const guesses = Object(recall("guesses", {}));
  const digits = (n) => String(Number(n.toPrecision(3)));

  function parse(text) {
    const match = /^\s*([-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[-+]?\d+)?)\s*[^\d.,]*$/i.exec(text);
    const number = match ? Number(match[1].replace(",", ".")) : NaN;
    return Number.isFinite(number) ? number : null;
  }

  function verdict(guess, value, low, high, unit) {
    if (low <= guess && guess <= high) return "That is within what was measured.";
    if (guess * value > 0) {
      const ratio = guess / value;
      const off = Math.max(ratio, 1 / ratio);
      const side = Math.abs(guess) > Math.abs(value) ? "large" : "small";
      if (off < 1.1) return "That is within a tenth of it.";
      return `Your guess is ${digits(off)} times too ${side}.`;
    }
    return `Your guess is off by ${digits(Math.abs(guess - value))}${unit && ` ${unit}`}.`;
  }

  // One axis for all its numbers: of powers of ten if they lie far apart.
  function scale(numbers) {
    const least = Math.min(...numbers);
    const most = Math.max(...numbers);
    if (least > 0 && most / least > 8) {
      const from = Math.floor(Math.log10(least));
      const to = Math.max(from + 1, Math.ceil(Math.log10(most)));
      const every = Math.ceil((to - from) / 5);
      const ticks = [];
      for (let power = from; power <= to; power += every) ticks.push(10 ** power);
      return { log: true, ticks, at: (n) => (Math.log10(n) - from) / (to - from) };
    }
    const round = (n) => {
      const size = 10 ** Math.floor(Math.log10(n));
      return [1, 2, 5, 10].find((step) => step * size >= n) * size;
    };
    const from = least < 0 ? -round(-least) : 0;
    const to = most > 0 ? round(most) : 0;
    const ticks = from < 0 && to > 0 ? [from, 0, to] : [from, (from + to) / 2, to];
    return { log: false, ticks, at: (n) => (to > from ? (n - from) / (to - from) : 0.5) };
  }

  function axis(guess, value, low, high) {
    const { log, ticks, at } = scale([guess, value, low, high]);
    const percent = (n) => `${(100 * at(n)).toFixed(2)}%`;
    const side = (n) => (at(n) < 0.2 ? "start" : at(n) > 0.8 ? "end" : "middle");
    const mark = (n, kind, text) => make(
      "span", { class: `ev-axis-mark ev-axis-${kind}`, style: `left:${percent(n)}` },
      make("span", { class: `ev-axis-${side(n)}` }, text),
    );
    const band = make("span", { class: "ev-axis-band", style:
      `left:${percent(low)};width:${(100 * (at(high) - at(low))).toFixed(2)}%` });
    const ends = ticks.map((n) => mark(n, "tick", digits(n)));
    if (log) ends.push(make("span", { class: "ev-axis-log" }, "log scale"));
    return make("div", { class: "ev-axis", "aria-hidden": "true" },
      band, ...ends, mark(guess, "guess", "your guess"), mark(value, "value", "measured"));
  }

  function ask(box) {
    box.classList.remove("ev-committed");
    box.querySelector(".ev-told").replaceChildren();
  }

  function tell(box, guess) {
    const { value, low, high, unit } = box.dataset;
    const numbers = [value, low, high].map(Number);
    const answer = box.querySelector(".ev-answer .ev-value").cloneNode(true);
    const behind = box.querySelector(".ev-answer p").lastChild;
    const after = behind.nodeType === Node.TEXT_NODE ? behind.textContent : "";
    const again = make("button", { type: "button", class: "ev-button" }, "Guess again");
    again.addEventListener("click", () => {
      delete guesses[box.dataset.guess];
      keep("guesses", guesses);
      ask(box);
      box.querySelector("input").focus();
    });
    box.querySelector(".ev-told").replaceChildren(
      make("p", {}, `You said ${digits(guess)}; measured: `, answer, after, ". ",
        verdict(guess, ...numbers, unit), " ", again),
      axis(guess, ...numbers),
    );
    box.classList.add("ev-committed");
  }

  function prepare(box) {
    const field = box.querySelector("input");
    field.addEventListener("input", () => field.setCustomValidity(""));
    box.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const guess = parse(field.value);
      if (guess === null) {
        field.setCustomValidity("Write one number, like 0.5 or 12.");
        field.reportValidity();
        return;
      }
      guesses[box.dataset.guess] = guess;
      keep("guesses", guesses);
      tell(box, guess);
      box.querySelector(".ev-told button").focus();
    });
    const known = guesses[box.dataset.guess];
    if (typeof known === "number") tell(box, known);
  }

  // --- Keys.

  const KEYS = [
    ["?", "show this list"],
    ["/ s f", "search"],
    ["n .", "next page"],
    ["p ,", "previous page"],
    ["r", "mark this day as read, or as not read"],
    ["Esc", "close a card, the search, this list"],
  ];
  let dialog = null;

  function showKeys() {
    if (!dialog) {
      const rows = KEYS.map(([keys, what]) => make("tr", {},
        make("th", { scope: "row" }, ...keys.split(" ").flatMap((k) => [make("kbd", {}, k), " "])),
        make("td", {}, what)));
      const choice = make("input", { type: "checkbox", "data-keys": "" });
      const close = make("button", { class: "ev-button" }, "Close");
      dialog = make("dialog", { class: "ev-keys md-typeset", "aria-labelledby": "ev-keys-title" },
        make("h2", { id: "ev-keys-title" }, "Keys"),
        make("table", { class: "ev-keys-table" }, make("tbody", {}, ...rows)),
        make("p", {}, make("label", {}, choice, " Single letters and signs are keys")),
        make("form", { method: "dialog" }, close));
      document.body.append(dialog);
    }
    dialog.querySelector("input").checked = recall("keys", true);
    dialog.showModal();
  }

  // Before anybody else: letters may be turned off, and belong to a dialog while it is open.
  window.addEventListener("keydown", (event) => {
    const writes = event.target.closest && event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key.length !== 1 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (writes && event.target.type !== "checkbox" && event.target.type !== "radio") return;
    if (event.key === " ") return;
    const open = dialog && dialog.open;
    if (open || !recall("keys", true)) event.stopImmediatePropagation();
    else if (event.key === "?") showKeys();
    else if (event.key === "r") for (const b of all("[data-read]")) toggleRead(Number(b.dataset.read));
  }, true);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-read], [data-forget]");
    if (!button) return;
    if (button.dataset.read) toggleRead(Number(button.dataset.read));
    else forget(button);
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-keys]")) return;
    keep("keys", event.target.checked);
    for (const choice of all("[data-keys]")) choice.checked = event.target.checked;
  });

  // --- What the theme leaves without a name.

  window.addEventListener("load", () => {
    for (const search of all(".md-search[role=dialog]")) search.setAttribute("aria-label", "Search");
    for (const tags of all("nav.md-tags")) tags.setAttribute("aria-label", "Tags");
    for (const tools of all("nav.md-code__nav")) tools.setAttribute("role", "none");
  });

  showProgress();
  for (const box of all(".ev-predict[data-guess]")) prepare(box);
  for (const choice of all("[data-keys]")) choice.checked = recall("keys", true);
})();
