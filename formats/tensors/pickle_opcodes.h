#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phasescope::formats {

// The opcodes a state_dict needs in pickle's protocol 2, by their codes (Python's pickletools).
enum class PickleOp : std::uint8_t {
  mark = '(',
  stop = '.',
  bin_int = 'J',
  bin_int1 = 'K',
  bin_int2 = 'M',
  none = 'N',
  bin_persid = 'Q',
  reduce = 'R',
  short_bin_string = 'U',
  bin_unicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  empty_dict = '}',
  appends = 'e',
  bin_get = 'h',
  long_bin_get = 'j',
  empty_list = ']',
  bin_put = 'q',
  long_bin_put = 'r',
  set_item = 's',
  tuple = 't',
  empty_tuple = ')',
  set_items = 'u',
  bin_float = 'G',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  new_true = 0x88,
  new_false = 0x89,
  long1 = 0x8a,
  // Never carried out; named here so that a refusal can say what it would have imported.
  stack_global = 0x93,
};

struct PickleInstruction {
  std::uint8_t code = 0;
  std::string_view name;      // "BINUNICODE"; empty for a byte that is no opcode
  std::string_view argument;  // without its length; for lines without the last line feed
  std::size_t at = 0;         // of the opcode
  std::size_t next = 0;       // of the next one
  bool cut_short = false;     // the bytes end inside it
};

// The instruction at bytes[at]; at < bytes.size(). Knows all opcodes up to protocol 5.
PickleInstruction pickle_instruction(std::string_view bytes, std::size_t at);

// "module.name" of GLOBAL's two lines.
std::string dotted_global(std::string_view lines);

}  // namespace phasescope::formats
