// Bound numbers open a card; links into recorded output show and light their place.
// Without this script the same links still lead to the same places.
"use strict";

(() => {
  let card = null; // the open card
  let owner = null; // the number it belongs to

  function frame(label) {
    const made = document.createElement("div");
    made.className = "ev-card";
    made.id = "ev-card";
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", label);
    return made;
  }

  // What a term of the glossary means: the first sentence, and the way to the rest.
  function define(term) {
    const made = frame(`What ${term.textContent} means`);
    const p = document.createElement("p");
    const a = document.createElement("a");
    a.href = term.href;
    a.textContent = "glossary";
    p.append(`${term.dataset.term} · `, a);
    made.append(p);
    return made;
  }

  // The values behind a number: its title has one line for each, its link leads to the first.
  function sources(number, places) {
    const link = number.getAttribute("href");
    const elsewhere = "not measured here; source: ";
    if (number.title.startsWith(elsewhere)) {
      return [{ address: number.title.slice(elsewhere.length), what: "not measured here", href: link }];
    }
    return number.title.split("\n").map((line) => {
      const [program, address] = line.split(": ", 2);
      const page = program in places ? places[program] : link && link.split("#")[0];
      const place = ["ev", program, address].join("~").replaceAll("/", "~");
      return {
        address: `${program}: ${address}`,
        what: line.slice(`${program}: ${address}: `.length),
        href: typeof page === "string" ? `${page}#${place}` : null,
      };
    });
  }

  function build(number) {
    if (number.dataset.term) return define(number);
    const { expression, places = {} } = JSON.parse(number.dataset.ev || "{}");
    const made = frame(`Where ${number.textContent} comes from`);
    if (expression) {
      const p = document.createElement("p");
      const code = document.createElement("code");
      code.textContent = expression;
      p.append(code);
      made.append(p);
    }
    for (const source of sources(number, places)) {
      const p = document.createElement("p");
      const code = document.createElement("code");
      code.textContent = source.address;
      p.append(code);
      const what = document.createElement("p");
      what.className = "ev-card-what";
      what.textContent = source.what;
      if (source.href) {
        const a = document.createElement("a");
        a.href = source.href;
        a.textContent = "show";
        what.append(" · ", a);
      }
      made.append(p, what);
    }
    return made;
  }

  function open(number) {
    if (owner === number) return;
    close();
    owner = number;
    card = build(number);
    if (number.title) { // the browser's own tooltip would lie over the card
      number.dataset.title = number.title;
      number.removeAttribute("title");
    }
    number.setAttribute("aria-expanded", "true");
    number.setAttribute("aria-describedby", card.id);
    number.after(card); // so that Tab leads into it next
    const place = number.getBoundingClientRect();
    const base = card.offsetParent.getBoundingClientRect();
    const room = document.documentElement.clientWidth - card.offsetWidth - 8;
    card.style.left = `${Math.max(8, Math.min(place.left, room)) - base.left}px`;
    card.style.top = `${place.bottom - base.top + 6}px`;
  }

  function close() {
    if (!owner) return;
    card.remove();
    owner.removeAttribute("aria-expanded");
    owner.removeAttribute("aria-describedby");
    if (owner.dataset.title) owner.title = owner.dataset.title;
    card = owner = null;
  }

  // On paper nothing opens. There a number has a small number, and a list says where each stands.
  let notes = null;

  function note() {
    close();
    unnote(); // a preview may have left some
    const list = document.createElement("ol");
    const seen = new Map();
    for (const number of document.querySelectorAll(".md-content .ev-value")) {
      if (!number.title || !number.offsetParent) continue;
      if (!seen.has(number.title)) {
        const li = document.createElement("li");
        sources(number, {}).forEach(({ address, what, href }, i) => {
          const code = document.createElement("code");
          code.textContent = address;
          li.append(i ? "; " : "", code, `, ${what}`);
          if (/^https?:/.test(href)) li.append(`, ${href}`);
        });
        list.append(li);
        seen.set(number.title, seen.size + 1);
      }
      number.dataset.note = seen.get(number.title);
    }
    if (!seen.size) return;
    notes = document.createElement("section");
    notes.className = "ev-notes";
    const title = document.createElement("h2");
    title.textContent = "Where the numbers stand";
    notes.append(title, list);
    document.querySelector(".md-content__inner").append(notes);
  }

  function unnote() {
    if (notes) notes.remove();
    notes = null;
    for (const number of document.querySelectorAll("[data-note]")) delete number.dataset.note;
  }

  window.addEventListener("beforeprint", note);
  window.addEventListener("afterprint", unnote);

  // Puts what one run printed into the paper below the choice of runs.
  function show(choice, run) {
    choice.querySelectorAll("input")[run].checked = true;
    for (const piece of choice.nextElementSibling.querySelectorAll("[data-runs]")) {
      piece.textContent = piece.dataset.runs.split("\n")[run];
    }
  }

  // Shows, wherever there is a choice of devices, what one of them printed.
  function choose(device) {
    for (const input of document.querySelectorAll(".ev-devices > input")) {
      if (input.value === device) input.checked = true;
    }
  }

  function remembered(device) {
    try { // a browser may keep nothing for anybody
      if (device) localStorage.setItem("ev-device", device);
      return localStorage.getItem("ev-device");
    } catch {
      return device;
    }
  }

  function reveal(target) {
    for (let at = target.parentElement; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
      if (at.classList.contains("ev-device")) {
        at.previousElementSibling.previousElementSibling.checked = true;
      }
      const choice = at.classList.contains("ev-paper") && at.previousElementSibling;
      if (choice && choice.classList.contains("ev-runs") && target.dataset.median) {
        show(choice, Number(target.dataset.median)); // the run that printed this number
      }
    }
    for (const lit of document.querySelectorAll(".ev-lit")) lit.classList.remove("ev-lit");
    target.classList.add("ev-lit");
    target.scrollIntoView({ block: "center" });
  }

  function follow() {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!/^(ev~|src~|L[0-9]+$)/.test(name)) return;
    // A value without a place of its own is somewhere in its program's output.
    const target = document.getElementById(name)
      || document.getElementById(name.split("~").slice(0, 3).join("~"));
    if (target) reveal(target);
  }

  const at = (event) => event.target.closest && event.target.closest(".ev-value, .ev-term");
  let touched = false;

  document.addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch"; });
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    if (at(event)) open(at(event));
    // What has the focus keeps its card: scrolling moves things under a resting mouse.
    else if (owner && owner !== document.activeElement && !event.target.closest(".ev-card")) close();
  });
  document.addEventListener("focusin", (event) => {
    if (at(event)) open(at(event));
    else if (!event.target.closest(".ev-card")) close();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  document.addEventListener("click", (event) => {
    const number = at(event);
    if (number && touched) { // a tap opens the card; the link in it jumps
      event.preventDefault();
      open(number);
    } else if (!event.target.closest(".ev-card")) {
      close();
    }
    const link = event.target.closest("a[href*='#']");
    // A second click on the same link changes no hash, but must light the place again.
    if (link && link.hash === location.hash) setTimeout(follow);
  });
  document.addEventListener("change", (event) => {
    const choice = event.target.closest(".ev-runs");
    if (choice) show(choice, [...choice.querySelectorAll("input")].indexOf(event.target));
    else if (event.target.parentElement.matches(".ev-devices")) {
      choose(remembered(event.target.value));
    }
  });
  // The address of a program in Compiler Explorer is long, and a page has it once.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#explorer~']");
    const there = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (there) link.href = there.href;
  }, true);
  window.addEventListener("hashchange", follow);
  const start = () => { choose(remembered()); follow(); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
