#include "formats/tensors/pickle_machine.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "formats/error.h"
#include "formats/tensors/pickle_opcodes.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::size_t kMaxValues = 4'000'000;
constexpr std::size_t kMaxStack = 1'000'000;
constexpr std::size_t kMaxMarks = 10'000;
// The most arguments of a tensor or storage. They are copied, so that a long list must not be.
constexpr std::size_t kMaxArguments = 8;
constexpr std::size_t kStepsBetweenCancelChecks = 65'536;
constexpr std::string_view kProtocolHint =
    "save the file with torch.save's default pickle_protocol, 2";

constexpr KnownGlobal kGlobals[] = {
    {"collections.OrderedDict", PickleGlobal::ordered_dict},
    {"torch._utils._rebuild_tensor_v2", PickleGlobal::rebuild_tensor},
    {"torch._utils._rebuild_tensor_v3", PickleGlobal::rebuild_typed_tensor},
    {"torch._utils._rebuild_parameter", PickleGlobal::rebuild_parameter},
    {"torch.Size", PickleGlobal::size},
    {"torch.FloatStorage", PickleGlobal::storage, DType::f32, "F32", 4},
    {"torch.HalfStorage", PickleGlobal::storage, DType::f16, "F16", 2},
    {"torch.BFloat16Storage", PickleGlobal::storage, DType::bf16, "BF16", 2},
    {"torch.DoubleStorage", PickleGlobal::storage, DType::f64, "F64", 8},
    {"torch.CharStorage", PickleGlobal::storage, DType::i8, "I8", 1},
    {"torch.ShortStorage", PickleGlobal::storage, DType::i16, "I16", 2},
    {"torch.IntStorage", PickleGlobal::storage, DType::i32, "I32", 4},
    {"torch.LongStorage", PickleGlobal::storage, DType::i64, "I64", 8},
    {"torch.ByteStorage", PickleGlobal::storage, DType::u8, "U8", 1},
    {"torch.BoolStorage", PickleGlobal::storage, DType::boolean, "BOOL", 1},
    {"torch.ComplexFloatStorage", PickleGlobal::storage, DType::unsupported, "C64", 8},
    {"torch.ComplexDoubleStorage", PickleGlobal::storage, DType::unsupported, "C128", 16},
    {"torch.storage.UntypedStorage", PickleGlobal::untyped_storage, DType::u8, "U8", 1},
    {"torch.float32", PickleGlobal::dtype, DType::f32, "F32", 4},
    {"torch.float16", PickleGlobal::dtype, DType::f16, "F16", 2},
    {"torch.bfloat16", PickleGlobal::dtype, DType::bf16, "BF16", 2},
    {"torch.float64", PickleGlobal::dtype, DType::f64, "F64", 8},
    {"torch.int8", PickleGlobal::dtype, DType::i8, "I8", 1},
    {"torch.int16", PickleGlobal::dtype, DType::i16, "I16", 2},
    {"torch.int32", PickleGlobal::dtype, DType::i32, "I32", 4},
    {"torch.int64", PickleGlobal::dtype, DType::i64, "I64", 8},
    {"torch.uint8", PickleGlobal::dtype, DType::u8, "U8", 1},
    {"torch.bool", PickleGlobal::dtype, DType::boolean, "BOOL", 1},
    {"torch.float8_e4m3fn", PickleGlobal::dtype, DType::unsupported, "F8_E4M3", 1},
    {"torch.float8_e5m2", PickleGlobal::dtype, DType::unsupported, "F8_E5M2", 1},
    {"torch.float8_e4m3fnuz", PickleGlobal::dtype, DType::unsupported, "F8_E4M3FNUZ", 1},
    {"torch.float8_e5m2fnuz", PickleGlobal::dtype, DType::unsupported, "F8_E5M2FNUZ", 1},
    {"torch.float8_e8m0fnu", PickleGlobal::dtype, DType::unsupported, "F8_E8M0", 1},
    {"torch.uint16", PickleGlobal::dtype, DType::unsupported, "U16", 2},
    {"torch.uint32", PickleGlobal::dtype, DType::unsupported, "U32", 4},
    {"torch.uint64", PickleGlobal::dtype, DType::unsupported, "U64", 8},
    {"torch.complex32", PickleGlobal::dtype, DType::unsupported, "C32", 4},
    {"torch.complex64", PickleGlobal::dtype, DType::unsupported, "C64", 8},
    {"torch.complex128", PickleGlobal::dtype, DType::unsupported, "C128", 16},
};

const KnownGlobal* find_global(std::string_view name) {
  for (const KnownGlobal& global : kGlobals) {
    if (global.name == name) return &global;
  }
  return nullptr;
}

// What a refused global of torch's own means for the user.
std::string hint_for_global(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("sparse")) return "sparse tensors are not read; save them with .to_dense()";
  if (has("qtensor") || has("torch.Q") || has("torch.q")) {
    return "quantised tensors are not read; save them with .dequantize()";
  }
  return "nothing in the file was run; save a plain state_dict";
}

// The first global behind `at` that is not known, for refusals of whole protocols; empty where none
// is found.
std::string unknown_global_behind(std::string_view bytes, std::size_t at) {
  std::string_view last, before_last;
  while (at < bytes.size()) {
    const PickleInstruction step = pickle_instruction(bytes, at);
    if (step.cut_short || step.name.empty() || step.name == "STOP") return {};
    std::string name;
    if (step.name == "GLOBAL" || step.name == "INST") name = dotted_global(step.argument);
    if (step.name == "STACK_GLOBAL") name = std::string(before_last) + "." + std::string(last);
    if (!name.empty() && !find_global(name)) return name;
    if (step.name.ends_with("UNICODE") || step.name.ends_with("STRING")) {
      before_last = last;
      last = step.argument;
    }
    at = step.next;
  }
  return {};
}

template <typename T>
T little(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

class Machine {
 public:
  Machine(std::string_view bytes, std::size_t begin, const std::string& where,
          const OpenOptions& options)
      : bytes_(bytes), where_(where), options_(options) {
    result_.end = begin;
  }

  Pickle run() {
    for (std::size_t steps = 0; !stopped_; ++steps) {
      if (steps % kStepsBetweenCancelChecks == 0 && options_.cancelled && options_.cancelled()) {
        throw cancelled("opening was cancelled");
      }
      if (result_.end >= bytes_.size()) {
        refuse_at(bytes_.size(), "the pickle ends without STOP", "the file is cut short");
      }
      now_ = pickle_instruction(bytes_, result_.end);
      if (now_.name.empty()) {
        refuse("byte " + std::to_string(now_.code) + " is no opcode of a pickle");
      }
      if (now_.cut_short) refuse("the pickle ends inside " + std::string(now_.name));
      result_.end = now_.next;
      step();
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse_at(std::size_t byte, const std::string& sentence,
                              const std::string& hint = {}) const {
    throw bad_input(sentence, where_ + ", byte " + std::to_string(byte), hint);
  }
  [[noreturn]] void refuse(const std::string& sentence, const std::string& hint = {}) const {
    refuse_at(now_.at, sentence, hint);
  }
  [[noreturn]] void refuse_global(const std::string& name) const {
    refuse("the file refers to " + in_quotes(name) + ", which is not part of a state_dict",
           hint_for_global(name));
  }

  void step() {
    const std::string_view argument = now_.argument;
    switch (PickleOp{now_.code}) {
      case PickleOp::proto:
        return check_protocol(static_cast<unsigned char>(argument[0]));
      case PickleOp::stop:
        return finish();
      case PickleOp::mark:
        return put_mark();
      case PickleOp::none:
        return push({});
      case PickleOp::new_true:
        return push({.kind = PickleKind::boolean, .number = 1});
      case PickleOp::new_false:
        return push({.kind = PickleKind::boolean, .number = 0});
      case PickleOp::bin_int:
        return push_integer(little<std::int32_t>(argument));
      case PickleOp::bin_int1:
        return push_integer(little<std::uint8_t>(argument));
      case PickleOp::bin_int2:
        return push_integer(little<std::uint16_t>(argument));
      case PickleOp::long1:
        return push_long(argument);
      case PickleOp::bin_float:
        return push({.kind = PickleKind::real});
      case PickleOp::bin_unicode:
      case PickleOp::short_bin_string:
        return push({.kind = PickleKind::text, .text = argument});
      case PickleOp::empty_tuple:
        return push({.kind = PickleKind::tuple});
      case PickleOp::empty_list:
        return push({.kind = PickleKind::list});
      case PickleOp::empty_dict:
        return push({.kind = PickleKind::dict});
      case PickleOp::tuple1:
        return push_tuple(pop_last(1));
      case PickleOp::tuple2:
        return push_tuple(pop_last(2));
      case PickleOp::tuple3:
        return push_tuple(pop_last(3));
      case PickleOp::tuple:
        return push_tuple(pop_to_mark());
      case PickleOp::append:
        return append(pop_last(1));
      case PickleOp::appends:
        return append(pop_to_mark());
      case PickleOp::set_item:
        return set_items(pop_last(2));
      case PickleOp::set_items:
        return set_items(pop_to_mark());
      case PickleOp::global:
        return push_global();
      case PickleOp::reduce:
        return reduce();
      case PickleOp::build:
        return build();
      case PickleOp::bin_persid:
        return push_storage();
      case PickleOp::bin_get:
        return get(little<std::uint8_t>(argument));
      case PickleOp::long_bin_get:
        return get(little<std::uint32_t>(argument));
      case PickleOp::bin_put:
        return put(little<std::uint8_t>(argument));
      case PickleOp::long_bin_put:
        return put(little<std::uint32_t>(argument));
      case PickleOp::stack_global:
        refuse_stack_global();
    }
    refuse("the pickle opcode " + std::string(now_.name) + " is not read",
           "a state_dict needs none such; nothing in the file was run");
  }

  void check_protocol(unsigned version) const {
    if (version == 2) return;
    const std::string imported = unknown_global_behind(bytes_, now_.next);
    refuse("the pickle protocol of opcode PROTO is " + std::to_string(version) +
               ", and only 2 is read" +
               (imported.empty() ? "" : "; the file refers to " + in_quotes(imported)),
           std::string(kProtocolHint));
  }

  void finish() {
    result_.root = pop_last(1).front();
    if (!stack_.empty() || !marks_.empty()) refuse("values are left over at the pickle's STOP");
    stopped_ = true;
  }

  void put_mark() {
    if (marks_.size() >= kMaxMarks) {
      refuse("the pickle has more than " + std::to_string(kMaxMarks) + " open marks");
    }
    marks_.push_back(stack_.size());
  }

  // ---- the stack ----

  void push_index(std::uint32_t index) {
    if (stack_.size() >= kMaxStack) {
      refuse("the pickle puts more than " + std::to_string(kMaxStack) + " values on its stack");
    }
    stack_.push_back(index);
  }

  void push(PickleValue value) {
    if (result_.values.size() >= kMaxValues) {
      refuse("the pickle has more than " + std::to_string(kMaxValues) + " values");
    }
    result_.values.push_back(std::move(value));
    push_index(static_cast<std::uint32_t>(result_.values.size() - 1));
  }

  void push_integer(std::int64_t number) { push({.kind = PickleKind::integer, .number = number}); }

  // Two's complement, little-endian, as short as it gets.
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return push({.kind = PickleKind::long_integer, .text = bytes});
    std::uint64_t number = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(bytes[i]);
    }
    const std::size_t missing = 64 - 8 * bytes.size();
    if (missing < 64) {
      return push_integer(std::bit_cast<std::int64_t>(number << missing) >> missing);
    }
    push_integer(0);
  }

  void push_tuple(std::vector<std::uint32_t> items) {
    push({.kind = PickleKind::tuple, .items = std::move(items)});
  }

  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<std::uint32_t> pop_last(std::size_t count) {
    if (stack_.size() - bottom() < count) {
      refuse(std::string(now_.name) + " needs more values than the pickle's stack has");
    }
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::uint32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    return items;
  }

  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) refuse(std::string(now_.name) + " finds no MARK on the pickle's stack");
    std::vector<std::uint32_t> items = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  PickleValue& top(PickleKind kind, const char* wanted) {
    if (stack_.size() == bottom()) {
      refuse(std::string(now_.name) + " needs more values than the pickle's stack has");
    }
    PickleValue& value = result_.values[stack_.back()];
    if (value.kind != kind) refuse(std::string(now_.name) + " on what is no " + wanted);
    return value;
  }

  // ---- containers ----

  void append(const std::vector<std::uint32_t>& items) {
    PickleValue& list = top(PickleKind::list, "list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<std::uint32_t>& items) {
    PickleValue& dict = top(PickleKind::dict, "dict");
    if (items.size() % 2 != 0) refuse("SETITEMS has a key without a value");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }

  // torch sets `_metadata` on a state_dict; the state changes nothing here.
  void build() {
    const PickleKind state = result_.value(pop_last(1).front()).kind;
    const PickleValue& object = top(PickleKind::dict, "OrderedDict");
    if (!object.ordered) refuse("BUILD on what is no OrderedDict");
    if (state != PickleKind::dict) refuse("BUILD with a state that is no dict");
  }

  // ---- globals and what they make ----

  void push_global() {
    const std::string name = dotted_global(now_.argument);
    const KnownGlobal* global = find_global(name);
    if (!global) refuse_global(name);
    push({.kind = PickleKind::global, .global = global});
  }

  [[noreturn]] void refuse_stack_global() {
    std::string name;
    for (const std::uint32_t part : pop_last(2)) {
      name += (name.empty() ? "" : ".") + shortened(result_.value(part).text);
    }
    refuse("the pickle opcode STACK_GLOBAL, which refers to " + in_quotes(name) + ", is not read",
           std::string(kProtocolHint));
  }

  void reduce() {
    const std::uint32_t arguments = pop_last(1).front();
    const PickleValue& callee = result_.value(pop_last(1).front());
    if (result_.value(arguments).kind != PickleKind::tuple) {
      refuse("REDUCE with arguments that are no tuple");
    }
    if (callee.kind != PickleKind::global) refuse("REDUCE calls what is no global");
    call(*callee.global, arguments);
  }

  void call(const KnownGlobal& global, std::uint32_t arguments) {
    const std::vector<std::uint32_t>& items = result_.value(arguments).items;
    const auto kind_of = [&](std::size_t i) { return result_.value(items[i]).kind; };
    switch (global.kind) {
      case PickleGlobal::ordered_dict:
        if (!items.empty()) break;
        return push({.kind = PickleKind::dict, .ordered = true});
      case PickleGlobal::rebuild_tensor:
      case PickleGlobal::rebuild_typed_tensor:
        if (items.size() > kMaxArguments) break;
        return push({.kind = PickleKind::tensor, .global = &global, .items = items});
      case PickleGlobal::rebuild_parameter:
        if (items.size() != 3 || kind_of(0) != PickleKind::tensor) break;
        return push_index(items[0]);
      case PickleGlobal::size:
        if (items.size() != 1 || kind_of(0) != PickleKind::tuple) break;
        return push_index(items[0]);
      case PickleGlobal::storage:
      case PickleGlobal::untyped_storage:
      case PickleGlobal::dtype:
        refuse("REDUCE calls " + in_quotes(global.name) + ", which is no function");
    }
    refuse("REDUCE calls " + in_quotes(global.name) + " with arguments it does not take");
  }

  void push_storage() {
    const PickleValue& id = result_.value(pop_last(1).front());
    if (id.kind != PickleKind::tuple || id.items.size() > kMaxArguments) {
      refuse("BINPERSID with an id that names no storage");
    }
    push({.kind = PickleKind::storage, .items = id.items});
  }

  // ---- memo ----

  void put(std::uint32_t slot) {
    if (stack_.size() == bottom()) {
      refuse(std::string(now_.name) + " needs a value on the pickle's stack");
    }
    if (memo_.size() >= kMaxValues) {
      refuse("the pickle has more than " + std::to_string(kMaxValues) + " memo entries");
    }
    memo_[slot] = stack_.back();
  }

  void get(std::uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) {
      refuse(std::string(now_.name) + " of memo entry " + std::to_string(slot) +
             ", which was never set");
    }
    push_index(found->second);
  }

  std::string_view bytes_;
  const std::string& where_;
  const OpenOptions& options_;
  PickleInstruction now_;
  Pickle result_;
  std::vector<std::uint32_t> stack_;  // places in result_.values
  std::vector<std::size_t> marks_;    // sizes of the stack
  std::unordered_map<std::uint32_t, std::uint32_t> memo_;
  bool stopped_ = false;
};

}  // namespace

Pickle read_pickle(std::string_view bytes, std::size_t begin, const std::string& where,
                   const OpenOptions& options) {
  return Machine(bytes, begin, where, options).run();
}

}  // namespace phasescope::formats
