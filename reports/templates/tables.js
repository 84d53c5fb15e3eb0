"use strict";
// The page is complete without this: it only sorts and filters what is there.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    const number = Number(text);
    return text === "" || Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === typeof b ? a.localeCompare(b) : typeof a === "number" ? -1 : 1;
  heads.forEach((head, column) => {
    if (head.classList.contains("unsorted")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(key(a, column), key(b, column)));
      body.append(...rows);
    });
  });
}
for (const table of document.querySelectorAll("table[data-filter]")) {
  const rows = [...table.tBodies[0].rows];
  const words = [...new Set(rows.map((row) => row.dataset.is))].sort();
  if (words.length < 2) continue;
  const label = document.createElement("label");
  label.className = "filter";
  const select = document.createElement("select");
  for (const [value, text] of [["", "all"], ...words.map((word) => [word, word])]) {
    select.append(new Option(text, value));
  }
  label.append(table.dataset.filter + " ", select);
  const block = document.createElement("p");
  block.append(label);
  table.closest(".scroll").before(block);
  select.addEventListener("change", () => {
    for (const row of rows) row.hidden = select.value !== "" && row.dataset.is !== select.value;
  });
}
// A link into folded details opens them.
const open = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && (target.closest("details") ?? target.querySelector("details"));
  if (folded) folded.open = true;
};
addEventListener("hashchange", open);
open();
