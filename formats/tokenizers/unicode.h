#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Character properties as the reference (Hugging Face tokenizers 0.23) sees them. Its parts follow
// different versions of Unicode; each function says which, and unicode.cpp lists what that changes.

namespace phasescope::formats {

using CodePoints = std::pair<char32_t, char32_t>;  // first and last

// "Lu", "Nd", "Cn", ...: Unicode 16.
std::string_view general_category(char32_t code);
// Assigned in Unicode 15 and 16 and of a category that begins with `category`; a regular expression
// library that is older lacks them.
std::vector<CodePoints> newer_code_points(std::string_view category);
// All code points of a category, "N" or "Nd"; surrogates are left out.
std::vector<CodePoints> code_points_of(std::string_view category);

bool is_whitespace(char32_t code);         // White_Space
bool is_word_character(char32_t code);     // Alphabetic, marks, digits, connectors, joiners
bool is_numeric(char32_t code);            // N*, Unicode 17
bool is_punctuation(char32_t code);        // P* of Unicode 8 and all of ASCII's
bool is_mark(char32_t code);               // M*, Unicode 9
bool is_nonspacing_mark(char32_t code);    // Mn, Unicode 8
bool is_control_or_format(char32_t code);  // Cc, Cf, Co, Unicode 8
std::u32string lower_case(char32_t code);  // one character, but for U+0130

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Appends the full decomposition, Unicode 9, canonical or compatibility.
void decompose(char32_t code, bool compatibility, std::u32string& out);
// Canonical combining class, Unicode 9.
int combining_class(char32_t code);
// The character that both make together; 0 where there is none.
char32_t composed(char32_t first, char32_t second);

void append_utf8(std::string& text, char32_t code);

}  // namespace phasescope::formats
