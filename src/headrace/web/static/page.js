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
    // Without a text of its own, it copies the one that stands below it.
    var below = button.closest("details, section");
    var text = button.getAttribute("data-copy") || below.querySelector("pre").textContent;
    navigator.clipboard.writeText(text).then(
      function () {
        button.textContent = "Copied";
        setTimeout(function () {
          button.textContent = "Copy";
        }, 1500);
      },
      function () {}
    );
  });

  // Times in the zone of the browser; the tooltip has them in UTC.
  var parts = new Intl.DateTimeFormat("en-GB", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
    second: "2-digit", hourCycle: "h23", timeZoneName: "short"
  });

  function localTime(time, form) {
    var found = {};
    parts.formatToParts(time).forEach(function (part) {
      found[part.type] = part.value;
    });
    var clock = found.hour + ":" + found.minute;
    if (form === "short") return clock;
    if (form === "clock") return clock + " " + found.timeZoneName;
    var day = found.year + "-" + found.month + "-" + found.day;
    return day + " " + clock + ":" + found.second + " " + found.timeZoneName;
  }

  function showLocalTimes() {
    document.querySelectorAll("time[data-local]").forEach(function (element) {
      var form = element.getAttribute("data-local");
      var time = new Date(element.getAttribute("datetime"));
      if (isNaN(time)) return;
      var text = localTime(time, form);
      if (form !== "title") element.textContent = text;
      else if (!element.title.startsWith(text)) element.title = text + " (" + element.title + ")";
    });
    // Of a drawing: "18:03 UTC: done 5" becomes "19:03 CET (18:03 UTC): done 5".
    document.querySelectorAll("title[data-time]").forEach(function (element) {
      var time = new Date(element.getAttribute("data-time"));
      var utc = element.getAttribute("data-utc");
      var said = element.textContent;
      if (isNaN(time) || said.includes("(" + utc + ")")) return;
      var text = localTime(time, utc.length > 9 ? "full" : "clock");
      if (text !== utc) element.textContent = said.replace(utc, text + " (" + utc + ")");
    });
  }

  showLocalTimes();
  document.addEventListener("headrace:shown", showLocalTimes);

  // Keys: "/" to search, "?" for a list of them, "g" and a letter for a part of the dashboard.
  var keys = document.getElementById("keys");
  var going = false;

  function isTyping(element) {
    return element.closest("input, textarea, select, [contenteditable]") !== null;
  }

  function search() {
    var field = document.querySelector('main input[type="search"]') || document.querySelector(".find input");
    if (field) field.focus();
    return field !== null;
  }

  function go(letter) {
    var link = document.querySelector('.side nav a[data-go="' + CSS.escape(letter) + '"]');
    if (link) link.click();
    return link !== null;
  }

  function pressed(key) {
    if (going) return go(key);
    if (key === "/") return search();
    if (key === "?" && keys) {
      keys.showModal();
      return true;
    }
    return false;
  }

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift") return;
    if (isTyping(event.target) || (keys && keys.open)) return;
    if (pressed(event.key)) event.preventDefault();
    going = event.key === "g" && !going;
  });
  document.addEventListener("click", function (event) {
    if (keys && event.target.closest("[data-keys]")) keys.showModal();
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
