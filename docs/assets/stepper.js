// The online softmax, a tile at a time: cases from the recorded output below it, arithmetic
// as in the kernel, in FP32. Load with `defer`.
"use strict";

(() => {
  // --- Arithmetic, without a page ---

  const f = Math.fround;
  const exp = (x) => f(Math.exp(x));
  const fma = (a, b, c) => f(a * b + c); // the product is exact in double

  function addTile(state, { scores, values }) {
    const tileMax = Math.max(...scores);
    const m = Math.max(state.m, tileMax);
    const base = m === -Infinity ? 0 : m;
    const rescale = exp(f(state.m - base));
    const weights = scores.map((s) => exp(f(s - base)));
    const tileSum = weights.reduce((sum, w) => f(sum + w), 0);
    const l = fma(state.l, rescale, tileSum);
    const kept = f(state.o * rescale);
    const o = weights.reduce((sum, w, i) => fma(w, values[i], sum), kept);
    return { tileMax, m, rescale, l, o, weights, tileSum, kept };
  }

  // The states before the first tile and after each.
  function walk(tiles) {
    const states = [{ m: -Infinity, l: 0, o: 0, kept: 0, tileSum: 0 }];
    for (const tile of tiles) states.push(addTile(states.at(-1), tile));
    return states;
  }

  // The cases of a printed trace: [{ name, what, tiles: [{ scores, values, m, l, … }] }].
  function readTrace(text) {
    const cases = [];
    let head;
    for (const line of text.split("\n")) {
      const title = /^case ([\w-]+): (.*)/.exec(line);
      if (title) cases.push({ name: title[1], what: title[2], tiles: [] });
      const cells = line.trim().split(/ {2,}/);
      if (/^(inputs|state)$/.test(cells[0])) head = cells;
      const row = /^tile (\d+)$/.exec(cells[0]);
      if (!row) continue;
      const tile = (cases.at(-1).tiles[row[1] - 1] ??= {});
      head?.forEach((name, i) => { tile[name] = f(cells[i].replace("inf", "Infinity")); });
    }
    for (const tile of cases.flatMap((c) => c.tiles)) {
      [tile.scores, tile.values] = ["s", "v"].map((letter) => [1, 2, 3, 4].map((i) => tile[letter + i]));
    }
    return cases;
  }

  // A reader's scores: { scores } or { error }.
  function parseScores(text) {
    const words = text.split(/[\s,;]+/).filter(Boolean);
    const scores = [];
    if (!words.length) return { error: "Write at least one score." };
    if (words.length > 32) return { error: `${words.length} scores are too many: 32 at most.` };
    for (const word of words) {
      const plain = word.replace("−", "-").replace(/^-(inf|∞)$/i, "-Infinity");
      const score = f(plain);
      if (plain !== "-Infinity" && !(/^[-+.\de]+$/i.test(plain) && Number.isFinite(score))) {
        return { error: `“${word}” is no FP32 number. Write some like 2 or -1.5, and -inf for a masked key.` };
      }
      scores.push(score);
    }
    while (scores.length % 4) scores.push(-Infinity); // masked to the end of the tile
    return { scores };
  }

  function show(x) {
    return String(+x.toPrecision(6)).replace("NaN", "none").replace("Infinity", "∞").replace(/-/g, "−");
  }

  function say(states, step) {
    const [old, now] = [states[step - 1], states[step]];
    const tile = `Tile ${step} of ${states.length - 1}`;
    if (!step) return "Before the first tile, m is −∞ and l and o are 0.";
    if (now.tileMax === -Infinity) return `${tile} is masked whole: all its weights are 0.`;
    if (old.m === -Infinity) return `${tile} sets the maximum to ${show(now.m)}. Nothing was gathered before.`;
    if (now.m === old.m) return `${tile} leaves the maximum at ${show(now.m)}: the rescale is 1.`;
    return `${tile} moves the maximum from ${show(old.m)} to ${show(now.m)}: what was gathered is multiplied by ${show(now.rescale)}.`;
  }

  globalThis.evStepper = { addTile, walk, readTrace, parseScores, show, say };
  if (!globalThis.document) return;

  // --- The widget ---

  const FRAME = `<label>Case <select></select></label> <span></span>
    <form hidden><label>Scores, 32 at most <textarea></textarea></label>
      <button>Walk over these</button> <b role="alert"></b></form>
    <div class="ev-step-row" aria-hidden="true"></div><p></p>
    <div><button data-by="-99">Reset</button> <button data-by="-1">Back</button> <button data-by="1">Forward</button></div>
    <div class="ev-step-two"><div><dl></dl><p></p><span>Grey was kept, green is this tile’s.</span></div><table class="ev-table"></table></div>
    <p>Rescales</p><ol></ol><div aria-live="polite"></div>`;
  const KEYS = { ArrowRight: 1, ArrowLeft: -1, Home: -99, End: 99 };
  const percent = (x) => `${Math.max(0, 100 * x || 0)}%`;

  function mount(host) {
    const cases = readTrace(host.querySelector(".ev-paper pre")?.textContent || "");
    host.classList.add("ev-live"); // its place need not be kept any more
    if (!cases.length) return;
    const root = document.createElement("section");
    root.className = "ev-step";
    root.ariaLabel = "The online softmax, tile by tile";
    root.innerHTML = FRAME;
    const get = (selector) => root.querySelector(selector);
    const [pick, form, field, row, said] = ["select", "form", "textarea", ".ev-step-row", "p"].map(get);
    let tiles, states, height, timer, step;

    function load(newTiles) {
      [tiles, states, step] = [newTiles, walk(newTiles), 0];
      const finite = tiles.flatMap((t) => t.scores).filter(Number.isFinite);
      const low = Math.min(...finite);
      const span = Math.max(...finite) - low;
      height = (s) => percent(s === -Infinity ? 0 : 0.1 + 0.9 * (span ? (s - low) / span : 1));
      const bar = (s) => `<b ${s === -Infinity ? "class=ev-masked" : `style="height:${height(s)}"`}></b>`;
      row.innerHTML = `<i></i>${tiles.map((t) => `<div>${t.scores.map(bar).join("")}</div>`).join("")}`;
      draw();
    }

    const meter = (label, value, all, kept) => `<dt>${label}<dd>${show(value)}<dd aria-hidden="true">
      <b style="width:${all}"><i style="width:${percent(kept)}"></i></b>`;

    function draw() {
      const [now, old, tile] = [states[step], states[step - 1], tiles[step - 1]];
      const share = (letter) => percent(now[letter] / Math.max(...states.map((s) => s[letter])));
      [...row.children].forEach((column, i) => { column.className = i < step ? "ev-seen" : i === step ? "ev-now" : ""; });
      row.firstChild.hidden = now.m === -Infinity;
      row.firstChild.style.bottom = height(now.m);
      said.textContent = say(states, step);
      get("dl").innerHTML = meter("m", now.m, height(now.m)) +
        meter("l", now.l, share("l"), 1 - now.tileSum / now.l) + meter("o", now.o, share("o"), now.kept / now.o) +
        meter("o / l", f(now.o / now.l), percent(now.o / now.l / Math.max(...tiles.flatMap((t) => t.values))));
      const sum = (letter, added) => (tile
        ? `${letter} = ${show(old[letter])} × ${show(now.rescale)} + ${show(added)}` : `${letter} = 0`);
      get("dl + p").innerHTML = `${sum("l", now.tileSum)}<br>${sum("o", f(now.o - now.kept))}`;
      const cells = (i) => (tile ? [tile.scores[i], now.weights[i], tile.values[i]].map(show) : "–––".split(""));
      get("table").innerHTML = `<tr><th>score s<th>exp(s − m)<th>value v${
        [0, 1, 2, 3].map((i) => `<tr><td>${cells(i).join("<td>")}`).join("")}`;
      get("ol").innerHTML = tiles.map((_, i) => (i >= step ? "<li>"
        : `<li ${states[i + 1].m > states[i].m ? "class=ev-moved" : ""}>× ${show(states[i + 1].rescale)}`)).join("");
      for (const button of root.querySelectorAll("[data-by]")) {
        button.ariaDisabled = step === (button.dataset.by < 0 ? 0 : tiles.length);
      }
    }

    function go(by) {
      step = Math.max(0, Math.min(tiles.length, step + by));
      draw();
      clearTimeout(timer); // only where the reader comes to rest is read out
      timer = setTimeout(() => { get("[aria-live]").textContent = say(states, step); }, 500);
    }

    function choose() {
      const chosen = cases.find((c) => c.name === pick.value);
      form.hidden = Boolean(chosen);
      get("[role=alert]").textContent = "";
      get("span").textContent = chosen ? chosen.what : "with the same values";
      if (chosen) return load(chosen.tiles);
      field.value = tiles.flatMap((t) => t.scores).join(" ").replace(/Infinity/g, "inf");
      field.focus();
    }

    pick.addEventListener("change", choose);
    root.addEventListener("click", ({ target }) => target.dataset.by && go(+target.dataset.by));
    root.addEventListener("keydown", (event) => {
      if (!KEYS[event.key] || event.altKey || event.ctrlKey || event.metaKey || event.target.matches("select, textarea")) return;
      event.preventDefault();
      go(KEYS[event.key]);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { scores, error = "" } = parseScores(field.value);
      get("[role=alert]").textContent = error;
      field.ariaInvalid = Boolean(error);
      if (error) return field.focus();
      load(cases[0].tiles.slice(0, scores.length / 4).map(({ values }, t) => ({ values, scores: scores.slice(4 * t, 4 * t + 4) })));
    });
    pick.innerHTML = `${cases.map((c) => `<option>${c.name}`).join("")}<option>your own`;
    choose();
    host.prepend(root);
  }

  document.querySelectorAll(".ev-stepper").forEach(mount);
})();
