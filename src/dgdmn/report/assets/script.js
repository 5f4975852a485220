"use strict";
(() => {
  // The reader's choices by name. They survive when the content of the page is replaced.
  const chosen = { tab: null, off: new Set(), choice: new Map(), open: new Set(), scrolled: new Map(), focus: null };
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const streamOf = (node) => node.closest("[data-panel]")?.dataset.panel ?? "";
  const keyOf = (node) => streamOf(node) + "\n" + node.dataset.key;
  const openOf = (node) => streamOf(node) + "\n" + node.dataset.open;
  const labelOf = (node) => streamOf(node) + "\n" + node.getAttribute("aria-label");
  const focusOf = (node) => JSON.stringify([
    streamOf(node), node.tagName, node.dataset.tab, node.dataset.key, node.dataset.choose, node.parentNode.dataset?.open,
  ]);

  function showTab(name) {
    const tabs = all("[data-tab]");
    if (!tabs.length) return;
    chosen.tab = tabs.some((tab) => tab.dataset.tab === name) ? name : tabs[0].dataset.tab;
    for (const tab of tabs) {
      const on = tab.dataset.tab === chosen.tab;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    for (const panel of all("[data-panel]")) panel.classList.toggle("off", panel.dataset.panel !== chosen.tab);
  }

  function showKeys() {
    for (const node of all("[data-key]")) {
      const off = chosen.off.has(keyOf(node));
      if (node.tagName === "BUTTON") node.setAttribute("aria-pressed", String(!off));
      else node.classList.toggle("off", off);
    }
  }

  function showChoices() {
    for (const select of all("select[data-choose]")) {
      const kind = select.dataset.choose, panel = streamOf(select), key = panel + "\n" + kind;
      if ([...select.options].some((option) => option.value === chosen.choice.get(key))) {
        select.value = chosen.choice.get(key);
      }
      for (const node of all(`[data-choice="${kind}"]`, select.closest("section"))) {
        node.classList.toggle("off", node.dataset.name !== select.value);
      }
    }
  }

  function init() {
    document.documentElement.classList.add("js");
    showTab(chosen.tab);
    showKeys();
    showChoices();
    for (const node of all("details[data-open]")) node.open = chosen.open.has(openOf(node));
    for (const node of all(".scroll[aria-label]")) node.scrollLeft = chosen.scrolled.get(labelOf(node)) ?? 0;
    if (document.activeElement === document.body && chosen.focus) {
      all("button, select, summary").find((node) => focusOf(node) === chosen.focus)?.focus({ preventScroll: true });
    }
    hide();
  }

  document.addEventListener("click", (event) => {
    const tab = event.target.closest("[data-tab]"), button = event.target.closest("button[data-key]");
    if (tab) showTab(tab.dataset.tab);
    if (button) {
      const key = keyOf(button);
      if (!chosen.off.delete(key)) chosen.off.add(key);
      showKeys();
    }
  });
  document.addEventListener("change", (event) => {
    const select = event.target.closest("select[data-choose]");
    if (!select) return;
    chosen.choice.set(streamOf(select) + "\n" + select.dataset.choose, select.value);
    showChoices();
  });
  document.addEventListener("toggle", (event) => {
    const node = event.target;
    if (node.dataset?.open) chosen.open[node.open ? "add" : "delete"](openOf(node));
  }, true);
  document.addEventListener("scroll", (event) => {
    if (event.target.matches?.(".scroll[aria-label]")) chosen.scrolled.set(labelOf(event.target), event.target.scrollLeft);
  }, true);
  document.addEventListener("focusin", (event) => {
    if (event.target.matches("abbr[data-tip]")) define(event.target);
    chosen.focus = event.target.matches("main button, main select, main summary") ? focusOf(event.target) : null;
  });

  // Show the values under the pointer, or step through them with the arrow keys.
  const readout = () => document.getElementById("readout");
  function hide() {
    readout().hidden = true;
    all(".cursor").forEach((node) => node.remove());
  }
  function number(value, isRatio) {  // as core/text.py
    const text = isRatio ? value.toFixed(3).replace(/^(-?)0\./, "$1.") : value.toLocaleString("en", { maximumFractionDigits: 3 });
    return text.replace("-", "−");
  }
  function tell(chart, place, left, top) {
    const xs = chart.dataset.x.split(" "), names = chart.dataset.t.split(" ");
    const lines = all(".s", chart).filter((one) => !one.classList.contains("off"))
      .map((one) => [one.dataset.n, one.dataset.v.split(" ")[place]])
      .filter(([, value]) => value !== "nan")
      .sort((a, b) => Number(b[1]) - Number(a[1])).slice(0, 16)
      .map(([name, value]) => `${number(Number(value), "r" in chart.dataset)}  ${name}`);
    hide();
    const box = readout();
    box.textContent = [`${chart.dataset.l} ${names[place]}`, ...lines].join("\n");
    put(box, left + 14, top + 14);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("class", "cursor");
    line.setAttribute("d", `M${xs[place]} 10V${chart.viewBox.baseVal.height - 36}`);
    chart.append(line);
    chart.dataset.place = String(place);
  }
  function put(box, left, top) {
    box.hidden = false;
    box.style.left = Math.max(4, Math.min(left, innerWidth - box.offsetWidth - 8)) + "px";
    box.style.top = Math.max(4, Math.min(top, innerHeight - box.offsetHeight - 8)) + "px";
  }
  function define(term) {
    const at = term.getBoundingClientRect(), box = readout();
    box.textContent = term.dataset.tip;
    put(box, at.left, at.bottom + 6);
  }
  function point(event) {
    const term = event.target.closest?.("abbr[data-tip]");
    if (term) return define(term);
    const chart = event.target.closest?.("svg.chart");
    if (!chart || !chart.dataset.x) return hide();
    const box = chart.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * chart.viewBox.baseVal.width;
    const xs = chart.dataset.x.split(" ").map(Number);
    let nearest = 0;
    xs.forEach((one, index) => { if (Math.abs(one - x) < Math.abs(xs[nearest] - x)) nearest = index; });
    tell(chart, nearest, event.clientX, event.clientY);
  }
  for (const kind of ["pointermove", "click"]) document.addEventListener(kind, point); // a tap is a click
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], node = event.target;
    if (event.key === "Escape") hide();
    if (!step) return;
    if (node.dataset?.tab) {
      const tabs = all("[data-tab]"), next = tabs[(tabs.indexOf(node) + step + tabs.length) % tabs.length];
      showTab(next.dataset.tab);
      next.focus();
    } else if (node.matches?.("svg.chart") && node.dataset.x) {
      const last = node.dataset.x.split(" ").length - 1, now = Number(node.dataset.place ?? (step > 0 ? -1 : last + 1));
      const place = Math.max(0, Math.min(last, now + step)), box = node.getBoundingClientRect();
      tell(node, place, box.left + 20, box.top + 10);
    } else return;
    event.preventDefault();
  });
  document.addEventListener("focusout", hide);

  window.dgdmnReport = { init };
  init();
})();
