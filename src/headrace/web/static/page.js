// What pages can do without: the theme button, and no second click.
(function () {
  "use strict";

  var root = document.documentElement;
  var dark = matchMedia("(prefers-color-scheme: dark)");

  function current() {
    var chosen = root.getAttribute("data-theme");
    if (chosen) return chosen;
    return dark.matches ? "dark" : "light";
  }

  var toggle = document.querySelector("[data-theme-toggle]");
  if (toggle) {
    var label = function () {
      toggle.textContent = current() === "dark" ? "Light theme" : "Dark theme";
    };
    toggle.hidden = false;
    label();
    dark.addEventListener("change", label);
    toggle.addEventListener("click", function () {
      var theme = current() === "dark" ? "light" : "dark";
      root.setAttribute("data-theme", theme);
      try {
        localStorage.setItem("headrace-theme", theme);
      } catch (error) {
        // It holds for this page.
      }
      label();
    });
  }

  root.setAttribute("data-scripted", "");

  document.addEventListener("change", function (event) {
    if (!event.target.hasAttribute("data-select-all")) return;
    document.querySelectorAll('input[type="checkbox"][name="job"]').forEach(function (box) {
      box.checked = event.target.checked;
      // Updates of the page keep what was touched.
      box.setAttribute("data-touched", "");
    });
  });

  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copy]");
    if (!button || !navigator.clipboard) return;
    navigator.clipboard.writeText(button.getAttribute("data-copy")).then(
      function () {
        button.textContent = "Copied";
        setTimeout(function () {
          button.textContent = "Copy";
        }, 1500);
      },
      function () {}
    );
  });

  document.addEventListener("submit", function (event) {
    var form = event.target;
    if (form.method !== "post") return;
    if (form.hasAttribute("data-sent")) {
      event.preventDefault();
      return;
    }
    form.setAttribute("data-sent", "");
  });

  // Back from another page: forms may be sent again.
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("form[data-sent]").forEach(function (form) {
      form.removeAttribute("data-sent");
    });
  });
})();
