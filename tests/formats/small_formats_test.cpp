// SHA-256, .npy, text files, UTF-8 and errors.

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "formats/gathered_errors.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "formats/tensors/npy.h"
#include "formats/text_input.h"
#include "formats/utf8.h"
#include "support.h"

namespace phasescope::formats {
namespace {

TEST(Sha256, AgreesWithTheStandardsExamples) {
  // FIPS 180-4 examples; the last is a million times 'a'.
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  std::string text(300, '\0');
  std::iota(text.begin(), text.end(), '\0');
  for (std::size_t length = 0; length < text.size(); ++length) {
    Sha256 sha, plain(Sha256::Path::plain);
    for (std::size_t at = 0; at < length; at += 7) {
      const auto piece = std::span(text).subspan(at, std::min<std::size_t>(7, length - at));
      sha.update(std::as_bytes(piece));
      plain.update(std::as_bytes(piece));
    }
    const std::string hash = sha.finish();
    EXPECT_EQ(hash, sha256_hex(std::string_view(text).substr(0, length))) << length;
    EXPECT_EQ(hash, plain.finish()) << length;  // by the processor's instructions and without
  }
}

TEST(Sha256, OfAFile) {
  const TemporaryFolder folder;
  const std::string text(1'000'000, 'a');
  EXPECT_EQ(sha256_of_file(folder.file("x", text)), sha256_hex(text));
  EXPECT_EQ(sha256_of_file(folder.file("y", "")), sha256_hex(""));
  EXPECT_TRUE(tells(error_of([&] { sha256_of_file(folder / "none"); }), "none"));
  EXPECT_TRUE(tells(error_of([&] { sha256_of_file(folder.path()); }), folder.path().string()));
}

TEST(Npy, WritesByteForByteWhatNumPyWrites) {
  const TemporaryFolder folder;
  FileSystem& fs = real_file_system();
  const std::vector<float> floats = {0, 0.25, 0.5, 0.75, 1, 1.25};
  write_npy(fs, folder / "f", floats, std::vector<std::int64_t>{2, 3});
  EXPECT_EQ(file_content(folder / "f"), file_content(test_data("formats/float32_2x3.npy")));
  const std::vector<double> doubles = {0.0, 1.0 / 3, 2.0 / 3, 3.0 / 3, 4.0 / 3};
  write_npy(fs, folder / "d", doubles, std::vector<std::int64_t>{5});
  EXPECT_EQ(file_content(folder / "d"), file_content(test_data("formats/float64_5.npy")));
  write_npy(fs, folder / "i", std::vector<std::int64_t>{-7}, {});
  EXPECT_EQ(file_content(folder / "i"), file_content(test_data("formats/int64_scalar.npy")));
}

TEST(Npy, RefusesAShapeThatDoesNotFit) {
  const TemporaryFolder folder;
  const std::vector<float> six(6);
  EXPECT_EQ(error_of([&] {
              write_npy(real_file_system(), folder / "f", six, std::vector<std::int64_t>{2, 4});
            }).code(),
            "internal");
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
}

TEST(TextFile, IsReadAsBytes) {
  const TemporaryFolder folder;
  const std::string bytes("a\0\xFF\n", 4);
  EXPECT_EQ(read_text_file(folder.file("x", bytes)), bytes);
}

TEST(TextFile, Row20_MissingEmptyFolderAndTooLongAreToldApart) {
  const TemporaryFolder folder;
  EXPECT_TRUE(tells(error_of([&] { read_text_file(folder / "none.txt"); }), "no such file"));
  EXPECT_TRUE(tells(error_of([&] { read_text_file(folder.file("e", "")); }), "empty"));
  EXPECT_TRUE(tells(error_of([&] { read_text_file(folder.path()); }), "folder"));
  EXPECT_TRUE(tells(error_of([&] { read_text_file(folder.file("l", "12345"), 4); }), "at most 4"));
}

TEST(TextFile, Row20_WhatNeverEndsIsRefused) {
  for (const char* device : {"/dev/zero", "/dev/urandom"}) {
    EXPECT_TRUE(tells(error_of([&] { read_text_file(device); }), "a device")) << device;
  }
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto write_bytes = [&pipe](std::size_t count) {
    return std::thread([&pipe, count] { std::ofstream(pipe) << std::string(count, 'x'); });
  };
  std::thread writer = write_bytes(4);
  EXPECT_EQ(read_text_file(pipe, 4), "xxxx");
  writer.join();
  writer = write_bytes(5);
  EXPECT_TRUE(tells(error_of([&] { read_text_file(pipe, 4); }), "longer than 4 bytes"));
  writer.join();
}

// Nobody begins to write: a reader that waits for it cannot be ended by the first Ctrl-C either.
TEST(TextFile, Row20_APipeWithoutAWriterIsGivenUp) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(tells(error_of([&] { read_text_file(pipe); }), "nobody writes into this pipe"));
  // One that takes its time to begin, and then to write.
  std::thread writer([&pipe] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream file(pipe);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    file << "[1, 2";
    file.flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    file << ", 3]";
  });
  EXPECT_EQ(json_from_file(pipe), nlohmann::json({1, 2, 3}));
  writer.join();
}

TEST(TextCollection, ReadsTheBundledValidationTexts) {
  const auto path = std::filesystem::path(PHASESCOPE_SOURCE) / "assets/texts/validation.jsonl";
  const auto texts = read_text_collection(path);
  EXPECT_GE(texts.size(), 64u);
  for (const NamedText& text : texts) {
    EXPECT_GE(text.text.size(), 2200u) << text.name;
    EXPECT_EQ(first_invalid_utf8(text.text), text.text.size()) << text.name;
  }
}

// The bundled models are measured on them: they stay as they are, byte for byte.
TEST(TextCollection, TheValidationTextsAreThoseOfTheCorpus) {  // 17.A8
  const auto texts = std::filesystem::path(PHASESCOPE_SOURCE) / "assets/texts";
  const Json corpus = json_from_file(texts / "corpus.json");
  EXPECT_EQ(sha256_hex(std::string_view(read_text_file(texts / "validation.jsonl"))),
            corpus["validation"]["sha256"].get<std::string>());
}

// Long enough for 8192 tokens of 4.5 bytes.
TEST(TextCollection, ReadsTheBundledLongTexts) {  // 17.A8
  const auto path = std::filesystem::path(PHASESCOPE_SOURCE) / "assets/texts/long.jsonl";
  const auto texts = read_text_collection(path);
  EXPECT_GE(texts.size(), 24u);
  for (const NamedText& text : texts) {
    EXPECT_GE(text.text.size(), 36'864u) << text.name;
    EXPECT_EQ(first_invalid_utf8(text.text), text.text.size()) << text.name;
  }
}

TEST(Corpus, IsAFileAFolderOrACollection) {  // 17.A8
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.file("a.txt", "one");
  const auto names = [](const std::vector<NamedText>& texts) {
    std::string all;
    for (const NamedText& text : texts) all += text.name + "=" + text.text + ";";
    return all;
  };
  EXPECT_EQ(names(read_corpus(file)), "a.txt=one;");
  EXPECT_EQ(names(read_corpus(folder.file("c.jsonl", R"({"name": "x", "text": "y"})"))), "x=y;");
  std::filesystem::remove(folder.path() / "c.jsonl");
  folder.file("b.md", "two");
  folder.file(".hidden", "not read");
  std::filesystem::create_directory(folder.path() / "c");
  EXPECT_EQ(names(read_corpus(folder.path())), "a.txt=one;b.md=two;");
  EXPECT_TRUE(tells(error_of([&] { read_corpus(folder.path() / "c"); }), "holds no text"));
  // As a training reads it: folders in it too, and of a .jsonl file in it the lines.
  folder.file("c/inner.txt", "three");
  folder.file("c/lines.jsonl", R"({"name": "x", "text": "y"})");
  std::filesystem::create_directory_symlink("..", folder.path() / "c/up");
  EXPECT_EQ(names(read_corpus(folder.path())),
            "a.txt=one;b.md=two;c/inner.txt=three;c/lines.jsonl:x=y;");
  EXPECT_TRUE(tells(error_of([&] { read_corpus(folder.path() / "d"); }), "no such file"));
}

TEST(Corpus, IsCutAfterLines) {  // 17.A8
  const auto cut = [](const std::string& text, std::size_t bytes) {
    std::string all;
    for (const NamedText& piece : cut_at_lines({"t", text}, bytes)) all += piece.text + "|";
    return all;
  };
  EXPECT_EQ(cut("aa\nbb\ncc\ndd\n", 4), "aa\nbb\n|cc\ndd\n|");
  EXPECT_EQ(cut("aa\nbb\ncc\n", 3), "aa\n|bb\n|cc\n|");
  EXPECT_EQ(cut("aa\nbb\ncc", 4), "aa\nbb\ncc|");  // the rest is too short for a piece
  EXPECT_EQ(cut("no end of a line", 4), "no end |of a |line|");
  EXPECT_EQ(cut("\u00e9\u00e9\u00e9\u00e9", 3),
            "\u00e9\u00e9|\u00e9\u00e9|");  // no character is cut
  EXPECT_EQ(cut_at_lines({"t", "aa\nbb\n"}, 3).at(1).name, "t:3");
}

TEST(TextCollection, NamesTheBadLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& content) {
    return error_of([&] { read_text_collection(folder.file("t.jsonl", content)); });
  };
  EXPECT_TRUE(tells(refused("{\"text\": \"a\"}\n\n{\"text\": 3}\n"), "line 3"));
  EXPECT_TRUE(tells(refused("{\"text\": \"a\"}\n{"), "line 2"));
  EXPECT_TRUE(tells(refused("\n \n"), "holds no text"));
  EXPECT_TRUE(tells(refused("{\"text\": \"a\"}\n{\"text\": \"\"}\n"), "line 2"));
  const auto texts = read_text_collection(folder.file("t.jsonl", "{\"text\": \"a\"}\n"));
  EXPECT_EQ(texts[0].name, "1");
}

TEST(Utf8, FindsTheFirstBrokenByte) {
  EXPECT_EQ(first_invalid_utf8(""), 0u);
  EXPECT_EQ(first_invalid_utf8("aé€😀"), 10u);
  for (const std::string broken : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                                   "\xF4\x90\x80\x80", "\xF0\x9F\x98", "\xFF"}) {
    EXPECT_EQ(first_invalid_utf8("ab" + broken), 2u);
  }
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("short text"), "short text");
  EXPECT_EQ(shortened("éééé", 3), "éé...");
  EXPECT_EQ(in_quotes("a\nb"), "\"a⏎b\"");
}

TEST(Error, HasFourFieldsAndOneText) {
  const Error error = bad_input("it is wrong", "file, byte 3", "mend it");
  EXPECT_EQ(error.code(), "bad_input");
  EXPECT_STREQ(error.what(), "it is wrong");
  EXPECT_EQ(error.full_text(), "it is wrong (file, byte 3); mend it");
  EXPECT_EQ(cancelled().code(), "cancelled");
}

// What the steps of a request have said, gathered; each is a step that may end with an error.
std::string gathered(const std::vector<std::function<void()>>& steps) {
  GatheredErrors errors;
  for (const auto& step : steps) errors.run(step);
  try {
    errors.throw_if_any("settings");
  } catch (const Error& error) {
    return error.code() + ": " + error.full_text();
  }
  return "none";
}

TEST(GatheredErrors, AreToldAtOnceAndOneAsItIs) {
  const auto fine = [] {};
  const auto first = [] { throw bad_usage("no a", "--set", "say b"); };
  const auto second = [] { throw bad_input("no c", "c=1"); };
  EXPECT_EQ(gathered({fine, fine}), "none");
  EXPECT_EQ(gathered({fine, first}), "bad_usage: no a (--set); say b");
  EXPECT_EQ(gathered({first, fine, second}),
            "bad_usage: 2 settings cannot be used: no a (--set); no c (c=1)");
  EXPECT_EQ(gathered({first, first}), "bad_usage: 2 settings cannot be used: no a; no a (--set)");
  EXPECT_THROW(gathered({first, [] { throw cancelled(); }}), Error);  // no wrong setting
}

}  // namespace
}  // namespace phasescope::formats
