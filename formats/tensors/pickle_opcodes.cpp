#include "formats/tensors/pickle_opcodes.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace phasescope::formats {
namespace {

// How an opcode's argument is written. The first ones are a number of bytes.
enum Argument : std::int8_t {
  nothing = 0,
  one = 1,
  two = 2,
  four = 4,
  eight = 8,
  line = -1,
  two_lines = -2,
  length1 = -3,  // a length of one byte, then so many bytes
  length4 = -4,
  length8 = -5,
};

struct Row {
  std::uint8_t code;
  std::string_view name;
  Argument argument = nothing;
};

constexpr Row kRows[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT", line},
    {'I', "INT", line},
    {'J', "BININT", four},
    {'K', "BININT1", one},
    {'L', "LONG", line},
    {'M', "BININT2", two},
    {'N', "NONE"},
    {'P', "PERSID", line},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING", line},
    {'T', "BINSTRING", length4},
    {'U', "SHORT_BINSTRING", length1},
    {'V', "UNICODE", line},
    {'X', "BINUNICODE", length4},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL", two_lines},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET", line},
    {'h', "BINGET", one},
    {'i', "INST", two_lines},
    {'j', "LONG_BINGET", four},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT", line},
    {'q', "BINPUT", one},
    {'r', "LONG_BINPUT", four},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT", eight},
    {'B', "BINBYTES", length4},
    {'C', "SHORT_BINBYTES", length1},
    {0x80, "PROTO", one},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1", one},
    {0x83, "EXT2", two},
    {0x84, "EXT4", four},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {0x8a, "LONG1", length1},
    {0x8b, "LONG4", length4},
    {0x8c, "SHORT_BINUNICODE", length1},
    {0x8d, "BINUNICODE8", length8},
    {0x8e, "BINBYTES8", length8},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME", eight},
    {0x96, "BYTEARRAY8", length8},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

// Rows by opcode; unknown ones have no name.
constexpr std::array<Row, 256> make_table() {
  std::array<Row, 256> table{};
  for (const Row& row : kRows) table[row.code] = row;
  return table;
}

constexpr std::array<Row, 256> kTable = make_table();

// Takes the argument that begins at `at`; false where the bytes end before it does.
bool take_argument(std::string_view bytes, std::size_t at, Argument kind,
                   PickleInstruction& result) {
  std::uint64_t size = 0;
  std::size_t behind = 0;
  if (kind == line || kind == two_lines) {
    std::size_t end = bytes.find('\n', at);
    if (kind == two_lines && end != std::string_view::npos) end = bytes.find('\n', end + 1);
    if (end == std::string_view::npos) return false;
    size = end - at;
    behind = 1;
  } else if (kind == length1 || kind == length4 || kind == length8) {
    const std::size_t width = kind == length1 ? 1 : kind == length4 ? 4 : 8;
    if (bytes.size() - at < width) return false;
    for (std::size_t i = width; i-- > 0;) {
      size = size << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    at += width;
  } else {
    size = static_cast<std::uint64_t>(kind);
  }
  if (size > bytes.size() - at) return false;
  result.argument = bytes.substr(at, size);
  result.next = at + size + behind;
  return true;
}

}  // namespace

PickleInstruction pickle_instruction(std::string_view bytes, std::size_t at) {
  PickleInstruction result;
  result.code = static_cast<std::uint8_t>(bytes[at]);
  result.name = kTable[result.code].name;
  result.at = at;
  result.next = at + 1;
  result.cut_short = !take_argument(bytes, at + 1, kTable[result.code].argument, result);
  return result;
}

std::string dotted_global(std::string_view lines) {
  std::string name(lines);
  std::replace(name.begin(), name.end(), '\n', '.');
  return name;
}

}  // namespace phasescope::formats
