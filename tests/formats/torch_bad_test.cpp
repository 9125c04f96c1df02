// Bad files of torch.save: rows 8 and 11 to 14 of the table of faults.

#include <sys/resource.h>

#include <limits>

#include "formats/tensors/safetensors.h"
#include "formats/tensors/torch_file.h"
#include "support.h"
#include "torch_writer.h"

namespace phasescope::formats {
namespace {

using namespace pickled;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

class BadTorch : public ::testing::Test {
 protected:
  Error refused(const std::string& content) {
    const auto path = folder_.file("bad.pt", content);
    const Error error = error_of([&] { TorchFile::open(path); });
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_TRUE(tells(error, "bad.pt"));
    return error;
  }
  // The same pickle in both forms must fail alike; the places differ.
  Error refused_pickle(const std::string& pickle, const std::vector<std::string>& storages = {}) {
    const Error legacy = refused(legacy_form(pickle, storages));
    const Error error = refused(zip_form(pickle, storages));
    EXPECT_EQ(error.message(), legacy.message());
    return error;
  }
  // One tensor over a storage of six floats.
  Error refused_view(std::int64_t offset, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides) {
    return refused_pickle(dict({{"x", tensor(storage(6), offset, shape, strides)}}),
                          {std::string(24, '\0')});
  }

  TemporaryFolder folder_;
};

// ---- row 11 ----

class Row11 : public BadTorch {
 protected:
  // Each would make this file, were it run.
  std::string command() const { return text("touch " + (folder_ / "was_run").string()); }
  void expect_refused(const std::string& pickle, const std::string& named,
                      const std::string& at = "") {
    for (const std::string& content : {zip_form(pickle, {}), legacy_form(pickle, {}), pickle}) {
      const Error error = refused(content);
      EXPECT_TRUE(tells(error, named));
      EXPECT_TRUE(tells(error, "byte "));
    }
    EXPECT_TRUE(tells(refused(pickle), at));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "was_run"));
  }
};

TEST_F(Row11, ThroughReduce) {
  expect_refused(kStart + global("os", "system") + tuple({command()}) + "R.", "os.system",
                 "byte 2");
  expect_refused(kStart + global("builtins", "eval") + tuple({command()}) + "R.", "builtins.eval");
  expect_refused(kStart + global("collections", "defaultdict") + ")R.", "collections.defaultdict");
}

TEST_F(Row11, InsideAStateDict) {
  const std::string call = global("posix", "system") + tuple({command()}) + "R";
  expect_refused(dict({{"x", tensor(storage(1), 0, {1}, {1})}, {"y", call}}), "posix.system");
  expect_refused(dict({{"x", global("torch._utils", "_rebuild_tensor_v2") + tuple({call}) + "R"}}),
                 "posix.system");
}

TEST_F(Row11, ThroughGlobalAlone) {
  expect_refused(kStart + global("os", "system") + ".", "os.system", "byte 2");
  // A name that only begins or ends like a known one.
  expect_refused(kStart + global("torch._utils", "_rebuild_tensor_v2x") + ".", "_v2x");
  expect_refused(kStart + global("x.collections", "OrderedDict") + ".", "x.collections");
}

TEST_F(Row11, ThroughStackGlobal) {
  expect_refused(kStart + text("os") + text("system") + "\x93" + tuple({command()}) + "R.",
                 "os.system", "byte 20");
  // As Python's protocol 4 writes it.
  expect_refused("\x80\x04\x95" + little_bytes(std::uint64_t{33}) +
                     "\x8c\x02os\x94\x8c\x06system\x94\x93\x94" + tuple({command()}) + "R.",
                 "os.system", "byte 0");
}

TEST_F(Row11, ThroughOtherOpcodes) {
  const std::vector<std::pair<std::string, std::string>> opcodes = {
      {"(" + command() + "ios\nsystem\n.", "INST"},
      {"c__builtin__\neval\n.", "__builtin__.eval"},
      {kStart + "(" + global("torch", "Size") + command() + "o.", "OBJ"},
      {kStart + global("torch", "Size") + ")\x81.", "NEWOBJ"},
      {kStart + "\x82\x01.", "EXT1"},
      {kStart + "Pos.system\n.", "PERSID"},
      {kStart + "I1\n.", "INT"},
      {kStart + "N2.", "DUP"},
      {kStart + "N0.", "POP"},
      {kStart + "\x8f.", "EMPTY_SET"},
  };
  for (const auto& [pickle, named] : opcodes) expect_refused(pickle, named);
  EXPECT_TRUE(tells(refused_pickle(kStart + "\xff."), "255 is no opcode"));
}

TEST_F(Row11, WholeModulesAndOtherProtocols) {
  for (const std::string end : {".bin", ".legacy.bin"}) {
    const auto open = [&](const std::string& name) {
      return error_of([&] { TorchFile::open(test_data("formats/torch/" + name + end)); });
    };
    EXPECT_TRUE(tells(open("object"), "torch.nn.modules.linear.Linear"));
    EXPECT_TRUE(tells(open("protocol4"), "protocol"));
    EXPECT_TRUE(tells(open("tensor"), "no dict of tensors"));
    EXPECT_TRUE(tells(open("list"), "no dict of tensors"));
  }
}

// ---- row 12 ----

TEST_F(BadTorch, Row12_MemoMiss) {
  EXPECT_TRUE(tells(refused_pickle(kStart + "h\7."), "memo entry 7"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "j\xff\xff\xff\xff."), "memo entry 4294967295"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "q\1."), "BINPUT"));
}

TEST_F(BadTorch, Row12_StackUnderflow) {
  for (const std::string pickle : {".", "R.", "s.", "\x85.", "}N\x87.", "b.", "Q.", "(\x85.",
                                   "}(s.", "](a.", "(q\1.", "\x93"}) {
    EXPECT_TRUE(tells(refused_pickle(kStart + pickle), "stack")) << pickle;
  }
  for (const std::string pickle : {"u.", "t.", "e."}) {
    EXPECT_TRUE(tells(refused_pickle(kStart + pickle), "MARK")) << pickle;
  }
}

TEST_F(BadTorch, Row12_MarkBomb) {
  EXPECT_TRUE(tells(refused_pickle(kStart + std::string(10'000'000, '(')), "open marks"));
}

TEST_F(BadTorch, Row12_ValueBombs) {
  EXPECT_TRUE(tells(refused_pickle(kStart + std::string(10'000'000, '}')), "stack"));
  std::string lists = kStart + "]";
  for (int i = 0; i < 5'000'000; ++i) lists += "]a";
  EXPECT_TRUE(tells(refused_pickle(lists + "."), "4000000 values"));
  // The memo would make of a short tuple a tensor with as many arguments, again and again.
  const std::string many = kStart + "(" + std::string(500'000, 'N') + "tq\1";
  EXPECT_TRUE(tells(refused_pickle(many + global("torch._utils", "_rebuild_tensor_v2") + "h\1R."),
                    "arguments"));
  EXPECT_TRUE(tells(refused_pickle(many + "Q."), "storage"));
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(usage.ru_maxrss / 1024, 1500);
#endif
}

TEST_F(BadTorch, Row12_SelfReferenceAndDepth) {
  // A dict and a list that hold themselves.
  EXPECT_TRUE(tells(refused_pickle(kStart + "}q\1" + text("x") + "h\1s."), "no tensors"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "]q\1h\1a."), "no dict"));
  EXPECT_TRUE(
      tells(refused_pickle(kStart + "N" + std::string(1'000'000, '\x85') + "."), "no dict"));
  // Under the usual key, itself again.
  EXPECT_TRUE(tells(refused_pickle(kStart + "}q\1" + text("model") + "h\1s."), "no tensors"));
}

TEST_F(BadTorch, Row12_Build) {
  EXPECT_TRUE(tells(refused_pickle(kStart + "}}b."), "OrderedDict"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "N}b."), "OrderedDict"));
  EXPECT_TRUE(
      tells(refused_pickle(kStart + tensor(storage(1), 0, {1}, {1}) + "}b."), "OrderedDict"));
  EXPECT_TRUE(tells(refused_pickle(kStart + ordered_dict() + "Nb."), "no dict"));
  const std::string sound = kStart + ordered_dict() + "}" + text("_metadata") + "}sb.";
  EXPECT_TRUE(TorchFile::open(folder_.file("x.pt", zip_form(sound, {})))->tensors().empty());
}

TEST_F(BadTorch, Row12_ContainersOfTheWrongKind) {
  const std::string x = tensor(storage(1), 0, {1}, {1});
  for (const std::string& object : {x, std::string("]"), std::string(")"), std::string("N")}) {
    EXPECT_TRUE(tells(refused_pickle(kStart + object + "NNs."), "no dict"));
    EXPECT_TRUE(tells(refused_pickle(kStart + object + "(NNu."), "no dict"));
  }
  for (const std::string& object : {x, std::string("}"), std::string(")"), std::string("N")}) {
    EXPECT_TRUE(tells(refused_pickle(kStart + object + "Na."), "no list"));
    EXPECT_TRUE(tells(refused_pickle(kStart + object + "(Ne."), "no list"));
  }
  EXPECT_TRUE(tells(refused_pickle(kStart + "}(Nu."), "without a value"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "NNR."), "no tuple"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "N)R."), "no global"));
  EXPECT_TRUE(tells(refused_pickle(kStart + global("torch", "float32") + ")R."), "no function"));
  EXPECT_TRUE(tells(refused_pickle(kStart + global("torch", "Size") + ")R."), "does not take"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "NN."), "left over"));
}

TEST_F(BadTorch, Row12_HugeStringAndCutPickles) {
  EXPECT_TRUE(tells(refused_pickle(kStart + "X\xff\xff\xff\xffx."), "ends inside BINUNICODE"));
  EXPECT_TRUE(tells(refused(zip_form(kStart + "U\xffx.", {})), "ends inside SHORT_BINSTRING"));
  EXPECT_TRUE(tells(refused(zip_form(kStart + "ctorch\nSize", {})), "ends inside GLOBAL"));
  EXPECT_TRUE(tells(refused(zip_form(kStart + "J\1\2", {})), "ends inside BININT"));
  EXPECT_TRUE(tells(refused(zip_form(kStart + "}", {})), "without STOP"));
  const std::string sound =
      legacy_form(dict({{"x", tensor(storage(3), 0, {3}, {1})}}), {std::string(12, '\0')});
  for (std::size_t size = 0; size < sound.size(); ++size) refused(sound.substr(0, size));
}

TEST_F(BadTorch, Row12_KeysThatAreTwiceOrNoText) {
  const std::string x = tensor(storage(1), 0, {1}, {1});
  EXPECT_TRUE(tells(refused_pickle(dict({{"x", x}, {"x", x}}), {std::string(4, '\0')}),
                    "\"x\" is there twice"));
  EXPECT_TRUE(tells(refused_pickle(kStart + "}N" + x + "s."), "no text"));
  EXPECT_TRUE(tells(refused_pickle(dict({{"\xff", x}})), "no text"));
}

// ---- row 13 ----

TEST_F(BadTorch, Row13_StorageShorterThanItsTensors) {
  const std::string pickle = dict({{"x", tensor(storage(6), 0, {6}, {1})}});
  EXPECT_TRUE(tells(refused(zip_form(pickle, {std::string(20, '\0')})), "24"));
  EXPECT_TRUE(tells(refused(zip_form(pickle, {})), "\"0\" has no record"));
  EXPECT_TRUE(tells(refused(legacy_form(pickle, {std::string(20, '\0')})), "5 elements"));
  EXPECT_TRUE(tells(refused(legacy_form(pickle, {})), "\"0\" is not in the file"));
  std::string cut = legacy_form(pickle, {std::string(24, '\0')});
  cut.pop_back();
  EXPECT_TRUE(tells(refused(cut), "past the end"));
  EXPECT_TRUE(tells(refused(legacy_form(pickle, {std::string(24, '\0'), "more"})), "no tensor"));
}

TEST_F(BadTorch, Row13_ViewsOutsideTheirStorage) {
  EXPECT_TRUE(tells(refused_view(0, {7}, {1}), "outside its storage of 6"));
  EXPECT_TRUE(tells(refused_view(1, {6}, {1}), "outside"));
  EXPECT_TRUE(tells(refused_view(0, {2, 2}, {5, 1}), "outside"));
  EXPECT_TRUE(tells(refused_view(0, {2}, {kHuge}), "outside"));
  EXPECT_TRUE(tells(refused_view(kHuge, {1}, {1}), "outside"));
  EXPECT_TRUE(tells(refused_view(0, {kHuge, 3}, {1, 1}), "too large"));
  EXPECT_TRUE(tells(refused_view(0, {1LL << 62}, {0}), "too large"));
}

TEST_F(BadTorch, Row13_NegativeNumbers) {
  EXPECT_TRUE(tells(refused_view(-1, {1}, {1}), "negative storage offset -1"));
  EXPECT_TRUE(tells(refused_view(5, {2}, {-1}), "negative stride -1"));
  EXPECT_TRUE(tells(refused_view(0, {-2}, {1}), "negative shape -2"));
  EXPECT_TRUE(tells(refused_view(0, {2, 3}, {1}), "2 dimensions, but 1 strides"));
  EXPECT_TRUE(
      tells(refused_pickle(dict({{"x", tensor(storage(-1), 0, {0}, {1})}})), "negative storage"));
  EXPECT_TRUE(
      tells(refused_pickle(dict({{"x", tensor(storage(kHuge), 0, {1}, {1})}})), "elements"));
}

TEST_F(BadTorch, Row13_ElementsThatAreTheSameNumber) {
  EXPECT_TRUE(tells(refused_view(0, {2, 3}, {0, 1}), "same number"));
  EXPECT_TRUE(tells(refused_view(0, {2, 3}, {1, 1}), "same number"));
  for (const std::string end : {".bin", ".legacy.bin"}) {
    EXPECT_TRUE(tells(error_of([&] { TorchFile::open(test_data("formats/torch/expanded" + end)); }),
                      ".contiguous()"));
  }
}

TEST_F(BadTorch, Row13_SparseQuantisedAndNegatedTensors) {
  for (const std::string end : {".bin", ".legacy.bin"}) {
    const auto open = [&](const std::string& name) {
      return error_of([&] { TorchFile::open(test_data("formats/torch/" + name + end)); });
    };
    EXPECT_TRUE(tells(open("sparse"), "sparse tensors are not read"));
    EXPECT_TRUE(tells(open("quantised"), "quantised tensors are not read"));
    EXPECT_TRUE(tells(open("negated"), "negated"));
  }
}

TEST_F(BadTorch, Row13_RebuiltFromSomethingElse) {
  const std::string rebuild = global("torch._utils", "_rebuild_tensor_v2");
  const auto refused_arguments = [&](const std::vector<std::string>& arguments) {
    return refused_pickle(dict({{"x", rebuild + tuple(arguments) + "R"}}));
  };
  const std::string one = numbers({1});
  EXPECT_TRUE(tells(refused_arguments({}), "0 arguments"));
  EXPECT_TRUE(tells(refused_arguments({"N", number(0), one, one, "\x89", "}"}), "no storage"));
  EXPECT_TRUE(tells(refused_arguments({storage(1), "N", one, one, "\x89", "}"}), "no number"));
  EXPECT_TRUE(tells(refused_arguments({storage(1), number(0), "N", one, "\x89", "}"}), "no tuple"));
  EXPECT_TRUE(tells(refused_arguments({storage(1), number(0),
                                       numbers(std::vector<std::int64_t>(65)), one, "\x89", "}"}),
                    "at most 64"));
  EXPECT_TRUE(tells(refused_arguments({"NQ", number(0), one, one, "\x89", "}"}), "storage"));
  EXPECT_TRUE(tells(refused_arguments({tuple({text("module"), "N", "N", "N", "N"}) + "Q", number(0),
                                       one, one, "\x89", "}"}),
                    "no storage"));
  EXPECT_TRUE(tells(refused_pickle(dict({{"x", global("torch._utils", "_rebuild_parameter") +
                                                   tuple({"N", "\x89", "}"}) + "R"}})),
                    "does not take"));
}

// ---- row 14 ----

class Row14 : public BadTorch {
 protected:
  // A checkpoint of x = 3 floats whose storage record is changed by each test.
  ZipBuilder with(ZipItem storage) {
    ZipBuilder zip;
    zip.add({.name = "a/data.pkl", .content = pickle_});
    storage.name = storage.name.empty() ? "a/data/0" : storage.name;
    storage.content = storage.content.empty() ? std::string(12, '\1') : storage.content;
    zip.add(storage);
    return zip;
  }

  std::string pickle_ = dict({{"x", tensor(storage(3), 0, {3}, {1})}});
};

TEST_F(Row14, CompressedAndEncryptedRecords) {
  EXPECT_TRUE(tells(refused(with({.method = 8}).file()), "compressed"));
  EXPECT_TRUE(tells(refused(with({.flags = 1}).file()), "encrypted"));
}

TEST_F(Row14, ZipBombs) {
  // Sizes that only decompressing would reach, and two records over the same bytes.
  EXPECT_TRUE(tells(refused(with({.packed_error = -8}).file()), "packed"));
  ZipBuilder zip = with({});
  zip.add({.name = "a/data/1",
           .content = std::string(12, '\1'),
           .offset_error = -50,
           .local_name = "a/data/1"});
  EXPECT_TRUE(tells(refused(zip.file()), "overlap"));
  EXPECT_TRUE(tells(refused(with({.size_error = 1 << 30, .descriptor = true}).file()),
                    "runs past the zip file's data"));
}

TEST_F(Row14, DuplicateRecords) {
  ZipBuilder zip = with({});
  zip.add({.name = "a/data/0", .content = std::string(12, '\2')});
  EXPECT_TRUE(tells(refused(zip.file()), "\"a/data/0\" is in the zip directory twice"));
  zip = with({});
  zip.add({.name = "b/data.pkl", .content = pickle_});
  EXPECT_TRUE(tells(refused(zip.file()), "more than one data.pkl"));
}

TEST_F(Row14, BadCrc) {
  // The pickle's is checked when the file is opened, a storage's when it is read.
  ZipBuilder zip;
  zip.add({.name = "a/data.pkl", .content = pickle_, .crc_error = 1});
  EXPECT_TRUE(tells(refused(zip.file()), "\"a/data.pkl\" has another CRC"));
  const auto file = TorchFile::open(folder_.file("x.pt", with({.crc_error = 1}).file()));
  std::vector<std::byte> bytes(12);
  const TensorEntry& entry = *file->find("x");
  EXPECT_TRUE(tells(error_of([&] { file->read(entry, bytes); }), "\"a/data/0\" has another CRC"));
  EXPECT_TRUE(
      tells(error_of([&] { file->read_part(entry, 4, std::span(bytes).first(4)); }), "CRC"));
  EXPECT_TRUE(tells(error_of([&] { file->visit(entry, [](auto) {}); }), "CRC"));
}

TEST_F(Row14, FalseZip64Sizes) {
  const ZipBuilder sound = with({.zip64 = true});
  EXPECT_TRUE(tells(refused(sound.file({.zip64 = true, .count_error = 1})), "damaged"));
  EXPECT_TRUE(tells(refused(sound.file({.zip64 = true, .count_error = 1LL << 40})), "records"));
  EXPECT_TRUE(tells(refused(sound.file({.zip64 = true, .count_error = -1})), "longer"));
  EXPECT_TRUE(tells(refused(sound.file({.zip64 = true, .size_error = 1})), "does not end"));
  EXPECT_TRUE(tells(refused(sound.file({.zip64 = true, .offset_error = 1})), "does not end"));
  EXPECT_TRUE(tells(refused(sound.file({.zip64 = true, .offset_error = kHuge})), "does not end"));
  EXPECT_TRUE(tells(refused(with({.size_error = kHuge, .zip64 = true, .descriptor = true}).file()),
                    "runs past"));
  EXPECT_TRUE(tells(refused(with({.offset_error = kHuge, .zip64 = true}).file()), "outside"));
}

TEST_F(Row14, HeadersThatDisagree) {
  EXPECT_TRUE(tells(refused(with({.local_name = "a/data/9"}).file()), "does not fit"));
  EXPECT_TRUE(tells(refused(with({.size_error = -4}).file()), "other sizes"));
  EXPECT_TRUE(tells(refused(with({.offset_error = 1}).file()), "does not fit"));
  const std::string sound = with({}).file();
  for (std::size_t size = 4; size < sound.size(); ++size) {
    EXPECT_TRUE(tells(refused(sound.substr(0, size)), "zip")) << size;
  }
}

TEST_F(Row14, BigEndian) {
  EXPECT_TRUE(tells(refused(zip_form(pickle_, {std::string(12, '\0')}, "big")), "big-endian"));
  EXPECT_TRUE(
      tells(refused(legacy_form(pickle_, {std::string(12, '\0')}, 4, false)), "big-endian"));
}

TEST_F(Row14, TorchScriptAndOtherFiles) {
  EXPECT_TRUE(tells(error_of([&] { TorchFile::open(test_data("formats/torch/torchscript.pt")); }),
                    "TorchScript"));
  ZipBuilder zip;
  zip.add({.name = "word/document.xml", .content = "x"});
  EXPECT_TRUE(tells(refused(zip.file()), "no data.pkl"));
  EXPECT_TRUE(tells(refused("GGUF and so on"), "neither a zip file nor a pickle"));
  EXPECT_TRUE(tells(refused(""), "neither a zip file nor a pickle"));
  EXPECT_TRUE(tells(refused(std::string(257, '\0') + "ustar" + std::string(250, '\0')), "tar"));
}

// ---- row 8, and what no one thought of ----

TEST_F(BadTorch, Row8_TruncatedOrRewrittenAfterOpening) {
  const std::string pickle = dict({{"x", tensor(storage(4096), 0, {64, 64}, {1, 64})},
                                   {"y", tensor(storage(4096), 0, {4096}, {1})}});
  const std::string storage(16384, '\1');
  for (const std::string& content : {zip_form(pickle, {storage}), legacy_form(pickle, {storage})}) {
    const auto path = folder_.file("model.pt", content);
    const auto file = TorchFile::open(path);
    std::filesystem::resize_file(path, 4000);
    std::vector<std::byte> bytes(16384);
    for (const TensorEntry& entry : file->tensors()) {
      EXPECT_TRUE(tells(error_of([&] { file->read(entry, bytes); }), "cut short or rewritten"));
      EXPECT_TRUE(tells(error_of([&] { file->visit(entry, [](auto) {}); }), "cut short"));
    }
  }
}

// Every byte changed in several ways: what opens is read, what does not says so.
TEST_F(BadTorch, NoMutationOfASoundFileDoesHarm) {
  for (const std::string name : {"views.legacy.bin", "training.bin"}) {
    std::string content = file_content(test_data("formats/torch/" + name));
    for (std::size_t at = 0; at < content.size(); at += 3) {
      const char before = content[at];
      for (const char byte : {'\0', '(', '\xff', static_cast<char>(before ^ 1)}) {
        content[at] = byte;
        try {
          const auto file = TorchFile::open(folder_.file("mutant.pt", content));
          for (const TensorEntry& entry : file->tensors()) {
            ASSERT_LE(entry.offset + (entry.size > 0), content.size());
            ASSERT_LE(entry.size, content.size());
            std::vector<std::byte> bytes(entry.size);
            file->read(entry, bytes);
          }
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), "bad_input");
        }
      }
      content[at] = before;
    }
  }
}

}  // namespace
}  // namespace phasescope::formats
