// Chooses the theme before anything is drawn; page.js has the button.
(function () {
  "use strict";
  try {
    var theme = localStorage.getItem("headrace-theme");
    if (theme === "light" || theme === "dark") {
      document.documentElement.setAttribute("data-theme", theme);
    }
  } catch (error) {
    // Without storage, the system's theme applies.
  }
})();
