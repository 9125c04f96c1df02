#include "formats/tensors/torch_state.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "formats/error.h"
#include "formats/tensors/safetensors_header.h"
#include "formats/tensors/strided.h"
#include "formats/text_input.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::string_view kInnerDicts[] = {"state_dict", "model_state_dict", "model", "module"};
constexpr std::size_t kMaxDimensions = 64;

bool holds_tensor(const Pickle& pickle, const PickleValue& dict) {
  for (std::size_t i = 1; i < dict.items.size(); i += 2) {
    if (pickle.item(dict, i).kind == PickleKind::tensor) return true;
  }
  return false;
}

// The value of a text key in a dict; null where there is none.
const PickleValue* find_key(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = pickle.item(dict, i);
    if (name.kind == PickleKind::text && name.text == key) return &pickle.item(dict, i + 1);
  }
  return nullptr;
}

class StateReader {
 public:
  StateReader(const Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  TorchState read() {
    const PickleValue& dict = find_state_dict();
    std::size_t others = 0;
    std::string other;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& name = pickle_.item(dict, i);
      const PickleValue& value = pickle_.item(dict, i + 1);
      if (value.kind == PickleKind::tensor) {
        add_tensor(name, value);
      } else if (++others == 1 && name.kind == PickleKind::text) {
        other = ", the first is " + in_quotes(name.text);
      }
    }
    if (others > 0) {
      state_.warnings.push_back(
          "entries beside the tensors, which are not read: " + std::to_string(others) + other);
    }
    return std::move(state_);
  }

 private:
  [[noreturn]] void refuse(const std::string& sentence, const std::string& hint = {}) const {
    throw bad_input(sentence, where_, hint);
  }
  [[noreturn]] void refuse_tensor(const std::string& what, const std::string& hint = {}) const {
    refuse("tensor " + in_quotes(name_) + " " + what, hint);
  }

  const PickleValue& find_state_dict() {
    const PickleValue& root = pickle_.value(pickle_.root);
    if (root.kind != PickleKind::dict) {
      refuse("the file holds no dict of tensors", "save model.state_dict()");
    }
    if (holds_tensor(pickle_, root)) return root;
    for (const std::string_view key : kInnerDicts) {
      const PickleValue* inner = find_key(pickle_, root, key);
      if (!inner || inner->kind != PickleKind::dict || !holds_tensor(pickle_, *inner)) continue;
      state_.warnings.push_back("the weights are the dict under the file's key " + in_quotes(key));
      return *inner;
    }
    if (!root.items.empty()) {
      refuse(
          "the file's dict holds no tensors, nor does one under \"state_dict\" or \"model\" in it",
          "save model.state_dict()");
    }
    return root;
  }

  void add_tensor(const PickleValue& name, const PickleValue& value) {
    if (name.kind != PickleKind::text || first_invalid_utf8(name.text) != name.text.size()) {
      refuse("a tensor's key in the file is no text");
    }
    name_ = std::string(name.text);
    if (!names_.insert(name_).second) {
      refuse("the tensor key " + in_quotes(name_) + " is there twice");
    }
    if (state_.tensors.size() >= kMaxTensors) refuse("the file lists more than 1,000,000 tensors");
    state_.tensors.push_back(read_tensor(value));
  }

  // storage, offset, size, stride, requires_grad, hooks[, metadata]; with the dtype behind the
  // hooks for types that have no storage of their own.
  TorchTensor read_tensor(const PickleValue& value) {
    const bool typed = value.global->kind == PickleGlobal::rebuild_typed_tensor;
    const std::size_t expected = typed ? 7 : 6;
    if (value.items.size() < expected || value.items.size() > expected + 1) {
      refuse_tensor("is rebuilt from " + std::to_string(value.items.size()) +
                    " arguments instead of " + std::to_string(expected));
    }
    if (value.items.size() > expected) check_metadata(pickle_.item(value, expected));
    TorchTensor tensor;
    const View view = read_storage(pickle_.item(value, 0));
    const KnownGlobal& type = typed ? dtype_of(pickle_.item(value, 6)) : *view.type;
    if (!typed && type.kind == PickleGlobal::untyped_storage) {
      refuse_tensor("is a view of a storage without a type");
    }
    tensor.storage = view.storage;
    tensor.item = type.item;
    tensor.entry.name = name_;
    tensor.entry.dtype = type.dtype;
    tensor.entry.dtype_name = type.dtype_name;
    tensor.entry.shape = numbers(pickle_.item(value, 2), "shape");
    tensor.strides = numbers(pickle_.item(value, 3), "stride");
    check_view(tensor, number(pickle_.item(value, 1), "storage offset"), view);
    return tensor;
  }

  // Refuses metadata, such as the bits that make a tensor the negative or conjugate of what is
  // stored.
  void check_metadata(const PickleValue& metadata) const {
    const bool empty = metadata.kind == PickleKind::none ||
                       (metadata.kind == PickleKind::dict && metadata.items.empty());
    if (!empty) {
      refuse_tensor("has metadata (a negated or conjugated view), which is not read",
                    "save it with .resolve_neg().resolve_conj()");
    }
  }

  const KnownGlobal& dtype_of(const PickleValue& value) const {
    if (value.kind != PickleKind::global || value.global->kind != PickleGlobal::dtype) {
      refuse_tensor("has a dtype that is none");
    }
    return *value.global;
  }

  std::uint64_t number(const PickleValue& value, const std::string& what) const {
    if (value.kind != PickleKind::integer) {
      refuse_tensor("has a " + what + " that is no number of 64 bits");
    }
    if (value.number < 0) {
      refuse_tensor("has the negative " + what + " " + std::to_string(value.number));
    }
    return static_cast<std::uint64_t>(value.number);
  }

  std::vector<std::int64_t> numbers(const PickleValue& value, const std::string& what) const {
    if (value.kind != PickleKind::tuple || value.items.size() > kMaxDimensions) {
      refuse_tensor("has a " + what + " that is no tuple of at most 64 numbers");
    }
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      result.push_back(static_cast<std::int64_t>(number(pickle_.item(value, i), what)));
    }
    return result;
  }

  // What a tensor may see of a storage, in bytes.
  struct View {
    std::size_t storage = 0;
    const KnownGlobal* type = nullptr;
    std::uint64_t begin = 0, end = 0;
  };

  // ("storage", type, key, location, elements[, None or (key, offset, elements) of a part]).
  View read_storage(const PickleValue& value) {
    if (value.kind != PickleKind::storage || value.items.size() < 5 || value.items.size() > 6) {
      refuse_tensor("is a view of what is no storage");
    }
    const PickleValue& tag = pickle_.item(value, 0);
    const PickleValue& type = pickle_.item(value, 1);
    const PickleValue& key = pickle_.item(value, 2);
    const bool known =
        type.kind == PickleKind::global && (type.global->kind == PickleGlobal::storage ||
                                            type.global->kind == PickleGlobal::untyped_storage);
    if (tag.text != "storage" || !known || key.kind != PickleKind::text) {
      refuse_tensor("is a view of what is no storage");
    }
    View view;
    view.type = type.global;
    view.end = bytes(number(pickle_.item(value, 4), "storage size"), *view.type);
    view.storage = storage_index(std::string(key.text), view.end, view.type->item);
    if (value.items.size() == 6) narrow(view, pickle_.item(value, 5));
    return view;
  }

  std::uint64_t bytes(std::uint64_t elements, const KnownGlobal& type) const {
    std::uint64_t result = 0;
    if (__builtin_mul_overflow(elements, std::uint64_t{type.item}, &result)) {
      refuse_tensor("is a view of a storage of " + std::to_string(elements) + " elements");
    }
    return result;
  }

  void narrow(View& view, const PickleValue& part) const {
    if (part.kind == PickleKind::none) return;
    if (part.kind != PickleKind::tuple || part.items.size() != 3) {
      refuse_tensor("is a view of what is no storage");
    }
    const std::uint64_t begin = bytes(number(pickle_.item(part, 1), "view offset"), *view.type);
    const std::uint64_t size = bytes(number(pickle_.item(part, 2), "view size"), *view.type);
    if (begin > view.end || size > view.end - begin) {
      refuse_tensor("is a view of a part outside its storage");
    }
    view.begin = begin;
    view.end = begin + size;
  }

  std::size_t storage_index(const std::string& key, std::uint64_t size, std::uint32_t item) {
    const auto [it, added] = storages_.emplace(key, state_.storages.size());
    if (added) state_.storages.push_back({key, size, item});
    TorchStorage& storage = state_.storages[it->second];
    storage.size = std::max(storage.size, size);
    return it->second;
  }

  void check_view(TorchTensor& tensor, std::uint64_t offset, const View& view) const {
    const std::vector<std::int64_t>& shape = tensor.entry.shape;
    if (tensor.strides.size() != shape.size()) {
      refuse_tensor("has " + std::to_string(shape.size()) + " dimensions, but " +
                    std::to_string(tensor.strides.size()) + " strides");
    }
    const auto count = checked_element_count(shape);
    std::uint64_t size = 0;
    if (!count || __builtin_mul_overflow(*count, std::uint64_t{tensor.item}, &size)) {
      refuse_tensor("has the shape " + shape_text(shape) + ", which is too large");
    }
    const auto reach = checked_reach(shape, tensor.strides);
    if (*count == 0) offset = 0;  // torch lets an empty slice begin anywhere
    const std::uint64_t elements = (view.end - view.begin) / tensor.item;
    if (!reach || offset > elements || *reach > elements - offset) {
      refuse_tensor("of shape " + shape_text(shape) + ", strides " + shape_text(tensor.strides) +
                    " and offset " + std::to_string(offset) + " reaches outside its storage of " +
                    std::to_string(elements) + " elements");
    }
    if (!elements_are_distinct(shape, tensor.strides)) {
      refuse_tensor("of shape " + shape_text(shape) + " and strides " + shape_text(tensor.strides) +
                        " has elements that are the same number",
                    "an expanded tensor; save it with .contiguous()");
    }
    tensor.entry.offset = view.begin + offset * tensor.item;
    tensor.entry.size = size;
  }

  const Pickle& pickle_;
  const std::string& where_;
  TorchState state_;
  std::unordered_map<std::string, std::size_t> storages_;
  std::unordered_set<std::string> names_;
  std::string name_;  // of the tensor being read
};

}  // namespace

TorchState torch_state(const Pickle& pickle, const std::string& where) {
  return StateReader(pickle, where).read();
}

}  // namespace phasescope::formats
