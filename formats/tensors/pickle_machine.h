#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensors/tensor_file.h"

// A reader of pickles that runs nothing. It knows the opcodes of pickle_opcodes.h and, by name, the
// few globals a state_dict refers to; calling one of those only notes its arguments. Anything else
// is an Error that names the opcode or global and its byte.

namespace phasescope::formats {

// What a known global stands for.
enum class PickleGlobal : std::uint8_t {
  ordered_dict,
  rebuild_tensor,        // torch._utils._rebuild_tensor_v2
  rebuild_typed_tensor,  // torch._utils._rebuild_tensor_v3: the dtype comes with the tensor
  rebuild_parameter,
  size,
  storage,
  untyped_storage,
  dtype,
};

struct KnownGlobal {
  std::string_view name;  // "torch.FloatStorage"
  PickleGlobal kind;
  // What storages and dtypes have: the element type, its name in safetensors files, its bytes.
  DType dtype = DType::unsupported;
  std::string_view dtype_name = {};
  std::uint32_t item = 0;
};

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  long_integer,  // above 64 bits; `text` has its bytes
  real,
  text,
  tuple,
  list,
  dict,
  global,
  storage,  // a persistent id; items are its parts
  tensor,   // items are the arguments of the function that would rebuild it
};

// Values refer to each other by their place in Pickle::values, so that a value inside itself is no
// cycle of ownership and nothing here needs to recurse.
struct PickleValue {
  PickleKind kind = PickleKind::none;
  bool ordered = false;                 // of a dict: made by OrderedDict
  std::int64_t number = 0;              // of booleans and integers
  std::string_view text = {};           // points into the pickle
  const KnownGlobal* global = nullptr;  // of globals and tensors (what rebuilds them)
  std::vector<std::uint32_t> items;     // dict: key, value, key, value, ...
};

struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;
  std::size_t end = 0;  // the byte after STOP

  const PickleValue& value(std::uint32_t index) const { return values[index]; }
  const PickleValue& item(const PickleValue& of, std::size_t i) const {
    return values[of.items[i]];
  }
};

// Reads the pickle that begins at bytes[begin]; the result points into `bytes`. `where` names the
// file and record in errors, whose byte offsets are counted from the start of `bytes`. Memory is
// bounded: at most four million values and memo entries.
Pickle read_pickle(std::string_view bytes, std::size_t begin, const std::string& where,
                   const OpenOptions& options);

}  // namespace phasescope::formats
