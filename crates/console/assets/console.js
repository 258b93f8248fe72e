// Small helps; every page works without them.
"use strict";

// Times in the time zone of the browser. The exact UTC stays in the title.
const shape = { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" };
const clock = new Intl.DateTimeFormat(undefined, shape);
const calendar = new Intl.DateTimeFormat(undefined, { ...shape, year: "numeric" });
const year = new Date().getFullYear();
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = (at.getFullYear() === year ? clock : calendar).format(at);
  }
}
localTimes(document);

// A form acts once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "true";
  window.addEventListener("pageshow", () => delete form.dataset.sent, { once: true });
});

// Filters apply as soon as a choice changes.
for (const form of document.querySelectorAll("form[data-auto]")) {
  form.addEventListener("change", (event) => { if (event.target.matches("select, [type=date]")) form.requestSubmit(); });
}

// File fields put the text of a file into a text field.
for (const file of document.querySelectorAll("input[type=file][data-into]")) {
  const text = document.getElementById(file.dataset.into);
  file.closest("[hidden]").hidden = false;
  file.addEventListener("change", async () => { if (file.files.length) text.value = await file.files[0].text(); });
}

// "Copy" buttons, which work with this script alone.
for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});

// Keys: "/" goes to the search field, "j" and "k" move through the rows of a list.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
    if (field) { event.preventDefault(); field.closest("details")?.setAttribute("open", ""); field.focus(); }
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll("table[data-keys] tbody th a")];
    if (links.length === 0) return;
    const at = links.indexOf(document.activeElement);
    const next = event.key === "j" ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0);
    links[next].focus();
  }
});
