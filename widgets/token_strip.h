#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace phasescope::widgets {

struct StripToken {
  std::string text;            // whitespace already visible
  std::optional<double> loss;  // nats; none for the first token
};

// Tokens in reading order, coloured by loss: quiet where the model expected them, warm where it was
// surprised; of a difference of two losses, blue below 0. The scale is fixed at 0 .. high_loss, or
// at -high_loss .. high_loss, and printed by the caller.
struct TokenStripSpec {
  const std::vector<StripToken>* tokens = nullptr;
  std::uint64_t version = 0;  // another one lays the tokens out again
  double high_loss = 6;
  bool difference = false;
  int selected = -1;     // the query of the other views
  int second = -1;       // the key of the other views
  int pointed = -1;      // what the pointer is at in another view
  int pointed_key = -1;  // and the key of the pair there
  // Ranges [begin, end) of tokens that are marked, in order: what a search found.
  const std::vector<std::pair<int, int>>* found = nullptr;
  int reveal = -1;  // is scrolled to in this frame
};

struct TokenStripDrawn {
  int hovered = -1;
  int clicked = -1;
  int stepped = -1;  // to the token beside the selected one by an arrow key, which is scrolled to
};

// The colours of a strip from the lowest loss to the highest, as high as a line of text.
void draw_loss_scale(const TokenStripSpec& spec, float width);

// Where each token stands; kept between frames so that drawing only draws.
class TokenStrip {
 public:
  TokenStripDrawn draw(const TokenStripSpec& spec);

 private:
  struct Place {
    float x = 0, width = 0;
    int line = 0;
  };
  void lay_out(const TokenStripSpec& spec, float width);
  int token_at(float x, int line) const;
  int token_beside(int token, int right, int down) const;

  std::vector<Place> places_;
  std::uint64_t version_ = ~std::uint64_t{0};
  float width_ = 0, font_size_ = 0;
  int lines_ = 0;
};

}  // namespace phasescope::widgets
