// SPDX-License-Identifier: Apache-2.0
// Boxes, lines and words of a picture, as an SVG document.
#ifndef KEEL_TOOLS_SVG_CANVAS_H_
#define KEEL_TOOLS_SVG_CANVAS_H_

#include <string>

namespace keel::cli {

// Shortens |text| to at most |limit| bytes, between two UTF-8 characters.
std::string shorten_text(const std::string& text, size_t limit);

// Coordinates are pixels from the top left corner. The document grows with its content. |style| is
// a class of the style sheet in svg_canvas.cc. Not thread-safe.
class SvgCanvas {
 public:
  void box(int x, int y, int width, int height, const char* style);
  void line(int x, int y, int to_x, int to_y, const char* style);
  // |y| is the base line.
  void text(int x, int y, const std::string& words, const char* style);
  std::string document() const;

 private:
  void reach(int x, int y);

  std::string body_;
  int right_ = 0;
  int bottom_ = 0;
};

}  // namespace keel::cli

#endif  // KEEL_TOOLS_SVG_CANVAS_H_
