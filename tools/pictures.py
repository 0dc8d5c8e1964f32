"""Pictures with 256 colours, which take a third of the bytes; a browser counts them."""

from __future__ import annotations

import base64
import struct
import zlib

from playwright.async_api import Browser

_COUNT = """async (source) => {
  const picture = await createImageBitmap(await (await fetch(source)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const data = context.getImageData(0, 0, picture.width, picture.height).data;
  const pixels = new Uint32Array(data.length / 4);
  const counts = new Map();
  for (let at = 0; at < pixels.length; at++) {
    const pixel = (data[4 * at] << 16) | (data[4 * at + 1] << 8) | data[4 * at + 2];
    pixels[at] = pixel;
    counts.set(pixel, (counts.get(pixel) || 0) + 1);
  }
  const far = (one, other) => {
    const red = (one >> 16) - (other >> 16);
    const green = ((one >> 8) & 255) - ((other >> 8) & 255);
    const blue = (one & 255) - (other & 255);
    return red * red + green * green + blue * blue;
  };
  const frequent = [...counts].sort((a, b) => b[1] - a[1]).map((each) => each[0]);
  let palette = [];
  // Colours that are rare and like no other are kept: the least distance grows until all fit.
  for (let apart = 1; !palette.length || palette.length > 256; apart += 3) {
    palette = [];
    for (const colour of frequent) {
      if (palette.every((other) => far(colour, other) >= apart * apart)) palette.push(colour);
      if (palette.length > 256) break;
    }
  }
  const nearest = new Map();
  for (const colour of counts.keys()) {
    let best = 0, least = Infinity;
    palette.forEach((other, index) => {
      const away = far(colour, other);
      if (away < least) { least = away; best = index; }
    });
    nearest.set(colour, best);
  }
  const places = Uint8Array.from(pixels, (pixel) => nearest.get(pixel));
  let text = "";
  for (let at = 0; at < places.length; at += 32768) {
    text += String.fromCharCode(...places.subarray(at, at + 32768));
  }
  return { width: picture.width, height: picture.height, palette, places: btoa(text) };
}"""


async def reduced(browser: Browser, png: bytes) -> bytes:
    """The picture with 256 of its colours: frequent ones, and such as are like no other."""
    page = await browser.new_page()
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    counted = await page.evaluate(_COUNT, source)
    await page.close()
    wide, high = counted["width"], counted["height"]
    places = base64.b64decode(counted["places"])
    rows = b"".join(b"\0" + places[at * wide : (at + 1) * wide] for at in range(high))
    colours = b"".join(colour.to_bytes(3, "big") for colour in counted["palette"])
    header = struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)
    parts = {b"IHDR": header, b"PLTE": colours, b"IDAT": zlib.compress(rows, 9), b"IEND": b""}
    made = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts.items())
    return min(made, png, key=len)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
