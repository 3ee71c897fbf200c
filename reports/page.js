// What a page does beside standing there. Without it tables and figures are whole.
(() => {
  "use strict";
  const PAGE = 500, NEAR_PX = 14, NOTHING = "–";
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const form = document.querySelector("form.filters"), said = form.querySelector("output");
  const pager = document.querySelector(".pages"), tip = document.querySelector(".tip");
  const table = document.getElementById("cells"), body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells], titles = heads.map(head => head.textContent);
  const keys = heads.map(head => head.dataset.key), ratio = keys.indexOf("times_baseline");
  const owners = all(".legend button");
  const fields = all("select[data-field]", form);
  const rows = [...body.rows].map(node => ({
    node,
    places: node.dataset.f.split(" ").map(Number),
    kind: node.dataset.k,
    time_s: Number(node.dataset.s),
    words: node.textContent.toLowerCase(),
  }));
  let page = 0, chosen = null, hidden = new Set();

  // ---- the table: filter, sort, pages

  const textOf = (row, column) => row.node.cells[column].textContent;

  const isKept = row =>
    fields.every((field, i) => field.value === "" || row.places[i] === Number(field.value))
    && form.text.value.toLowerCase().split(/\s+/).every(word => row.words.includes(word))
    && (!chosen || chosen.has(row.node.id));

  // A change is written with a minus sign, which no parser reads, and from twice on as "3.40x".
  const numberOf = text =>
    text.endsWith("x") ? 100 * (parseFloat(text) - 1) : parseFloat(text.replace("−", "-"));

  const compared = (a, b) => {
    const i = fields.findIndex(field => field.name === form.sort.value);
    if (i >= 0) return a.places[i] - b.places[i];
    const column = keys.indexOf(form.sort.value), x = textOf(a, column), y = textOf(b, column);
    const [p, q] = [x, y].map(numberOf), order = p - q;
    return Number.isNaN(order) ? x.localeCompare(y, "en", { numeric: true }) : order;
  };

  const sorted = () => {
    if (!form.sort.value) return form.down.checked ? [...rows].reverse() : rows;
    const column = keys.indexOf(form.sort.value), sign = form.down.checked ? -1 : 1;
    // What is not known comes last, whichever way it is sorted.
    const isUnknown = row => column >= 0 && textOf(row, column) === NOTHING;
    return [...rows].sort((a, b) => isUnknown(a) - isUnknown(b) || sign * compared(a, b));
  };

  const setRatios = () => {
    if (ratio < 0) return;
    const name = form.baseline.value, who = keys.indexOf("implementation"), times = new Map();
    const launches = titles[ratio].endsWith(" (1 launch)") ? " (1 launch)" : "";
    heads[ratio].querySelector("button").textContent = `× ${name}${launches}`;
    for (const row of rows) if (row.kind && textOf(row, who) === name) times.set(row.kind, row.time_s);
    for (const row of rows) {
      const known = row.kind && times.has(row.kind);
      row.node.cells[ratio].textContent = known ? (times.get(row.kind) / row.time_s).toFixed(2) : NOTHING;
    }
    for (const note of all(".of-baseline")) note.hidden = picked() !== "";
  };

  const draw = () => {
    setRatios();
    const ordered = sorted(), kept = ordered.filter(isKept);
    const pages = Math.max(1, Math.ceil(kept.length / PAGE));
    page = Math.min(page, pages - 1);
    const shown = new Set(kept.slice(page * PAGE, (page + 1) * PAGE));
    for (const row of ordered) row.node.hidden = !shown.has(row);
    body.append(...ordered.map(row => row.node));
    heads.forEach((head, i) => {
      if (keys[i] !== form.sort.value) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", form.down.checked ? "descending" : "ascending");
    });
    pager.hidden = pages < 2;
    pager.querySelector("span").textContent = `page ${page + 1} of ${pages}`;
    const other = picked(), isFollowed = other === followed && versions.get(other).size > 0;
    said.textContent = `${kept.length} of ${rows.length} rows` + (other && `; ratios to ${other}`)
      + (other && !isFollowed ? ", but findings and figures as the run has them" : "");
    for (const note of all(".against")) {
      const isDrawn = isFollowed && versions.get(other).has(note.closest("figure").id.slice(7));
      note.hidden = !other;
      note.textContent = isDrawn ? `Here against ${other}; its files are against ${ownBaseline()}.`
        : `Drawn against ${ownBaseline()}, not ${other}: `
          + `python -m reports RUN --baseline ${other} draws it against that.`;
    }
    const keptIds = new Set(kept.map(row => row.node.id.slice(1)));
    for (const part of all("[data-panel]")) part.classList.toggle("away", !keptIds.has(part.dataset.panel));
    for (const part of all("[data-of]")) part.classList.toggle("off", hidden.has(part.dataset.of));
    for (const button of owners) button.setAttribute("aria-pressed", !hidden.has(button.value));
    followBaseline();
    form.dispatchEvent(new Event("drawn"));
  };

  // ---- the baseline: the page's own is nothing, another has findings and figures packed with it

  const option = () => form.baseline?.selectedOptions[0];
  const picked = () => option() && !option().defaultSelected ? option().value : "";
  const ownBaseline = () => [...form.baseline.options].find(one => one.defaultSelected)?.value;
  const placeOf = part => document.querySelector(part === "findings" ? ".told" : `#figure-${part} .card`);
  const versions = new Map([["", new Map()]]);
  let followed = "";

  // The nodes of each part of the page as it is against a baseline.
  const unpack = async letters => {
    const bytes = Uint8Array.from(atob(letters), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const html = document.createRange().createContextualFragment(await new Response(stream).text());
    return new Map([...html.children].filter(one => placeOf(one.dataset.part))
      .map(one => [one.dataset.part, [...one.childNodes]]));
  };

  const followBaseline = async () => {
    const name = picked();
    // What cannot be unpacked, or was not packed, stays as it is, and the page says so.
    if (!versions.has(name)) versions.set(name, await unpack(option().dataset.follows).catch(() => new Map()));
    if (name === followed || name !== picked()) return;
    const own = versions.get(""), now = versions.get(name);
    for (const part of now.keys()) if (!own.has(part)) own.set(part, [...placeOf(part).childNodes]);
    for (const [part, nodes] of own) placeOf(part).replaceChildren(...(now.get(part) ?? nodes));
    followed = name;
    unlight();
    draw();
  };

  // ---- the state, in the address

  const controls = () => [...form.elements].filter(control => control.name);
  const isDefault = control => control.type === "checkbox" ? !control.checked
    : control.selectedOptions ? control.selectedIndex === defaultIndex(control) : control.value === control.defaultValue;
  const defaultIndex = select => Math.max(0, [...select.options].findIndex(option => option.defaultSelected));
  const wordOf = control => control.type === "checkbox" ? "1"
    : control.dataset.field ? control.selectedOptions[0].textContent : control.value;

  const write = () => {
    const told = new URLSearchParams();
    for (const control of controls()) if (!isDefault(control)) told.set(control.name, wordOf(control));
    for (const button of owners) if (hidden.has(button.value)) told.append("hide", button.textContent);
    if (chosen) told.set("rows", [...chosen].map(id => id.slice(1)).join(" "));
    if (page) told.set("page", page + 1);
    if (document.getElementById("more")?.checked) told.set("more", "1");
    history.replaceState(null, "", `#${told}`);
  };

  const set = (control, word) => {
    if (control.type === "checkbox") control.checked = word === "1";
    else if (control.selectedOptions) {
      const isIt = option => word === (control.dataset.field ? option.textContent : option.value);
      const at = [...control.options].findIndex(isIt);
      control.selectedIndex = at < 0 ? defaultIndex(control) : at;
    } else control.value = word ?? control.defaultValue;
  };

  const clear = () => {
    for (const control of controls()) if (control !== form.baseline) set(control, null);
    chosen = null;
    page = 0;
  };

  const choose = numbers => { chosen = new Set(numbers.split(" ").map(n => `r${n}`)); };

  const read = () => {
    const told = new URLSearchParams(location.hash.slice(1));
    clear();
    for (const control of controls()) set(control, told.get(control.name));
    const away = told.getAll("hide");
    hidden = new Set(owners.filter(button => away.includes(button.textContent)).map(button => button.value));
    if (told.get("rows")) choose(told.get("rows"));
    page = Math.max(0, (Number(told.get("page")) || 1) - 1);
    const more = document.getElementById("more");
    if (more) more.checked = told.get("more") === "1";
  };

  const change = () => { draw(); write(); };

  // A row that is filtered away or on another page is brought back before it is gone to.
  const goTo = id => {
    const row = rows.find(row => row.node.id === id);
    if (!row) return;
    if (!isKept(row)) clear();
    page = Math.floor(sorted().filter(isKept).indexOf(row) / PAGE);
    change();
    for (const other of all("tr.here")) other.classList.remove("here");
    row.node.classList.add("here");
    row.node.scrollIntoView({ block: "center" });
  };

  const follow = () => {
    if (location.hash.includes("=")) { read(); draw(); } else goTo(location.hash.slice(1));
  };

  // ---- the figures: hover a mark, step from mark to mark, hide an implementation

  // The row says more than the words for readers without scripts, unless a row has many marks.
  const words = new Map();
  for (const title of all(".card [data-row] > title")) {
    if (title.closest("[data-says]")) words.set(title.parentNode, title.textContent);
    title.remove();
  }
  const sameAs = mark => words.has(mark) ? [mark] : all(`.card [data-row="${mark.dataset.row}"]`);
  // Where the keys are: a pointer at rest, under which the page moves, does not set them back.
  let lit = null, stepped = null;

  const unlight = () => {
    if (lit) for (const mark of sameAs(lit)) mark.classList.remove("lit");
    lit = null;
    tip.hidden = true;
  };

  const light = mark => {
    if (mark === lit) return;
    unlight();
    lit = mark;
    for (const other of sameAs(mark)) other.classList.add("lit");
    const row = document.getElementById(`r${mark.dataset.row}`), list = document.createElement("dl");
    heads.forEach((head, i) => {
      const text = row.cells[i].textContent.trim();
      if (!head.dataset.first || text === NOTHING) return;
      const name = document.createElement("dt"), value = document.createElement("dd");
      name.textContent = head.textContent;
      value.textContent = text;
      list.append(name, value);
    });
    const said = document.createElement("p");
    said.textContent = words.get(mark) ?? "";
    tip.replaceChildren(...(said.textContent ? [said, list] : [list]));
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth - own.width - 4;
    tip.style.left = `${Math.max(4, Math.min(at.right + 10, right))}px`;
    const below = at.bottom + 10;
    tip.style.top = `${below + own.height < innerHeight ? below : Math.max(4, at.top - own.height - 10)}px`;
  };

  const marksOf = card => all("[data-row]:not(.off)", card).filter(mark => !mark.closest(".away"));

  const nearest = (card, x, y) => {
    let best = null, least = NEAR_PX;
    for (const mark of marksOf(card)) {
      const box = mark.getBoundingClientRect();
      const away = Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
      if (away < least) [best, least] = [mark, away];
    }
    return best;
  };

  const toggle = name => {
    if (!hidden.delete(name)) hidden.add(name);
    unlight();
    change();
  };

  for (const card of all(".card")) {
    card.addEventListener("pointermove", event => {
      const mark = nearest(card, event.clientX, event.clientY);
      if (mark) light(mark); else unlight();
    });
    card.addEventListener("pointerleave", unlight);
    card.addEventListener("blur", () => { stepped = null; unlight(); });
    card.addEventListener("click", event => {
      const mark = nearest(card, event.clientX, event.clientY), part = event.target.closest("[data-of]");
      if (mark && event.pointerType === "mouse") goTo(`r${mark.dataset.row}`);
      else if (mark) light(mark);
      else if (part && owners.length) toggle(part.dataset.of);
    });
    card.addEventListener("keydown", event => {
      const marks = marksOf(card), at = marks.indexOf(lit ?? stepped);
      const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? marks.length - 1 : at - 1, Home: 0, End: marks.length - 1 }[event.key];
      if (event.key === "Escape") { stepped = null; unlight(); }
      else if (event.key === "Enter" && at >= 0) { unlight(); goTo(`r${marks[at].dataset.row}`); }
      else if (to !== undefined && marks[to]) light(stepped = marks[to]);
      else return;
      event.preventDefault();
    });
  }
  addEventListener("scroll", () => { if (!document.activeElement?.matches(".card")) unlight(); });

  // ---- wiring

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = titles[column];
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      form.down.checked = form.sort.value === keys[column] && !form.down.checked;
      form.sort.value = keys[column];
      change();
    });
  });
  for (const legend of all(".legend")) {
    legend.hidden = false;
    legend.addEventListener("click", event => {
      const button = event.target.closest("button");
      if (button) toggle(button.value);
    });
  }
  form.hidden = false;
  form.addEventListener("input", () => { page = 0; change(); });
  // A page has controls outside of the form that belong to it.
  for (const control of controls()) if (!form.contains(control)) control.addEventListener("change", write);
  form.addEventListener("submit", event => event.preventDefault());
  form.querySelector("button").addEventListener("click", () => { clear(); change(); });
  document.getElementById("more")?.addEventListener("change", write);
  pager.addEventListener("click", event => {
    const step = Number(event.target.value);
    if (step) { page = Math.max(0, page + step); change(); }
  });
  document.querySelector(".told")?.addEventListener("click", event => {
    const link = event.target.closest("a[data-rows]");
    if (!link) return;
    event.preventDefault();
    clear();
    choose(link.dataset.rows);
    change();
    document.getElementById("table").scrollIntoView();
  });
  addEventListener("hashchange", follow);
  draw();
  if (location.hash) follow();
})();
