// Keys of the page of an answer to label. Everything has a button too.
"use strict";

const form = document.querySelector("form[data-label]");
const keys = document.querySelector("#keys");
const save = form?.querySelector("button[value=save]");
const skip = form?.querySelector("button[value=skip]");
const typing = (target) => target.closest("textarea, select, input:not([type=radio])");

document.addEventListener("keydown", (event) => {
  if (!form || event.altKey || event.metaKey) return;
  if (event.key === "Enter" && (event.ctrlKey || !event.target.closest("textarea, a, button, summary, input:not([type=radio])"))) {
    event.preventDefault();
    form.requestSubmit(save);
    return;
  }
  if (event.ctrlKey || typing(event.target)) return;
  const choice = form.querySelector(`input[type=radio][data-key="${CSS.escape(event.key.toUpperCase())}"]`);
  if (choice) {
    event.preventDefault();
    choice.checked = true;
    choice.focus();
  } else if (event.key === "s") {
    event.preventDefault();
    form.requestSubmit(skip);
  } else if (event.key === "?") {
    event.preventDefault();
    keys.open = !keys.open;
    if (keys.open) keys.querySelector("summary").focus();
  }
});
