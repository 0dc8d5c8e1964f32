// Keeps the main block up to date, in place: focus, input, open details, ticked boxes and scroll
// positions stay as they are.
(function () {
  "use strict";

  var main = document.getElementById("live");
  var address = main && main.getAttribute("data-live");
  if (!address || !window.EventSource) return;

  var POLL = 15000;
  var pulse = document.querySelector("[data-pulse]");
  var source = null;
  var again = null;
  var late = null;

  function say(state, text) {
    clearTimeout(late);
    late = null;
    if (!pulse) return;
    pulse.className = "pulse " + state;
    pulse.textContent = text;
    if (state === "live") {
      void pulse.offsetWidth;
      pulse.classList.add("fresh");
    }
  }

  function keyOf(node) {
    // Not `node.id`: of a form with a field named id, that is the field.
    return node.nodeType === 1 ? node.getAttribute("id") || node.getAttribute("data-key") : null;
  }

  function alike(a, b) {
    if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) return false;
    return keyOf(a) === keyOf(b);
  }

  function isHeld(element) {
    return element === document.activeElement || element.hasAttribute("data-touched");
  }

  function morphAttributes(from, to) {
    var index, attribute;
    for (index = from.attributes.length - 1; index >= 0; index--) {
      attribute = from.attributes[index].name;
      // What the user has changed is not in the document that was sent.
      if (attribute === "data-touched" || attribute === "data-sent") continue;
      if (attribute === "open" && from.nodeName === "DETAILS") continue;
      if (!to.hasAttribute(attribute)) from.removeAttribute(attribute);
    }
    for (index = 0; index < to.attributes.length; index++) {
      attribute = to.attributes[index];
      if (attribute.name === "open" && from.nodeName === "DETAILS") continue;
      if (from.getAttribute(attribute.name) !== attribute.value) {
        from.setAttribute(attribute.name, attribute.value);
      }
    }
  }

  function morphField(from, to) {
    if (isHeld(from)) return;
    if (from.type === "checkbox" || from.type === "radio") {
      from.checked = to.hasAttribute("checked");
    } else if (from.nodeName === "INPUT" && from.value !== (to.getAttribute("value") || "")) {
      from.value = to.getAttribute("value") || "";
    }
  }

  function morph(from, to) {
    if (from.nodeType !== 1) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    morphAttributes(from, to);
    if (from.nodeName === "INPUT") return morphField(from, to);
    if (from.nodeName === "SELECT" || from.nodeName === "TEXTAREA") {
      if (isHeld(from)) return;
      if (from.nodeName === "TEXTAREA" && from.defaultValue !== to.defaultValue) {
        from.value = to.defaultValue;
      }
    }
    morphChildren(from, to);
  }

  function morphChildren(from, to) {
    var keyed = {};
    var node = from.firstChild;
    for (; node; node = node.nextSibling) {
      if (keyOf(node)) keyed[node.nodeName + "#" + keyOf(node)] = node;
    }
    var at = from.firstChild;
    var next = to.firstChild;
    while (next) {
      var following = next.nextSibling;
      var known = keyOf(next) ? keyed[next.nodeName + "#" + keyOf(next)] : null;
      if (known && known !== at) {
        // Moved, or nodes before it are gone: remove those first, so that it need not move.
        while (at && at !== known && !stillWanted(at, next)) {
          var gone = at;
          at = at.nextSibling;
          gone.remove();
        }
        if (at !== known) from.insertBefore(known, at);
        else at = at.nextSibling;
        morph(known, next);
      } else if (at && alike(at, next)) {
        morph(at, next);
        at = at.nextSibling;
      } else if (at && !keyOf(next) && !keyOf(at) && at.nextSibling && alike(at.nextSibling, next)) {
        var extra = at;
        at = at.nextSibling;
        extra.remove();
        morph(at, next);
        at = at.nextSibling;
      } else {
        from.insertBefore(document.importNode(next, true), at);
      }
      next = following;
    }
    while (at) {
      var rest = at;
      at = at.nextSibling;
      rest.remove();
    }
  }

  function stillWanted(node, next) {
    for (; next; next = next.nextSibling) {
      if (alike(node, next)) return true;
    }
    return false;
  }

  function show(html) {
    var made = new DOMParser().parseFromString("<div>" + html + "</div>", "text/html");
    morphChildren(main, made.body.firstChild);
    document.dispatchEvent(new Event("headrace:shown"));
  }

  function touched(event) {
    if (event.target.closest && event.target.closest("#live")) {
      event.target.setAttribute("data-touched", "");
    }
  }

  function close() {
    clearTimeout(again);
    clearTimeout(late);
    late = null;
    if (source) source.close();
    source = null;
  }

  function open() {
    close();
    if (document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("page", function (event) {
      show(event.data);
      say("live", "Live");
    });
    source.addEventListener("last", function (event) {
      show(event.data);
      say("", "Complete");
      close();
    });
    source.addEventListener("full", function (event) {
      close();
      say("waiting", event.data);
      poll();
      again = setTimeout(open, POLL);
    });
    source.addEventListener("trouble", function (event) {
      say("trouble", event.data);
    });
    source.addEventListener("error", function () {
      // The browser tries again by itself, unless the answer was no stream.
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        say("waiting", "Reconnecting…");
        again = setTimeout(open, 5000);
        leaveIfOut();
      } else if (!late) {
        // Streams end now and then: say so only if it lasts.
        late = setTimeout(say, 3000, "waiting", "Reconnecting…");
      }
    });
  }

  // Without a stream: fetch the page itself, and take its main block.
  function poll() {
    fetch(location.href, { headers: { Accept: "text/html" } }).then(
      function (answer) {
        if (answer.redirected) return location.reload();
        if (!answer.ok) return;
        return answer.text().then(function (text) {
          var made = new DOMParser().parseFromString(text, "text/html").getElementById("live");
          if (made) morphChildren(main, made);
          document.dispatchEvent(new Event("headrace:shown"));
        });
      },
      function () {}
    );
  }

  // When the session is over, reloading the page leads to the login.
  function leaveIfOut() {
    fetch(location.href, { redirect: "manual", headers: { Accept: "text/html" } }).then(
      function (answer) {
        if (answer.type === "opaqueredirect" || answer.status === 401) location.reload();
      },
      function () {}
    );
  }

  function changedByHand(field) {
    if (field.nodeName !== "SELECT") {
      return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    }
    var marked = field.querySelector("option[selected]");
    return field.selectedIndex !== (marked ? marked.index : 0);
  }

  // Typed before this script was loaded, or restored by the browser.
  function touchedBefore() {
    var fields = main.querySelectorAll("input, select, textarea");
    Array.prototype.forEach.call(fields, function (field) {
      if (changedByHand(field)) field.setAttribute("data-touched", "");
    });
  }

  touchedBefore();
  document.addEventListener("input", touched);
  document.addEventListener("change", touched);
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) {
      close();
      say("", "Paused");
    } else {
      open();
    }
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) open();
  });
  open();
})();
