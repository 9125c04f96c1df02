// Bytes from anywhere as a tokenizer's file: the first byte chooses tokenizer.json or a
// SentencePiece model. What opens must encode and decode a text, its ids and spans in range.

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/tokenizers/hf_tokenizer.h"
#include "formats/tokenizers/sentence_piece.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::require;

void use(const Tokenizer& tokenizer) {
  const std::string text = "ab  aab <m> \u6ce8\u610f e\u0301 12";
  const TokenizedText tokens = tokenizer.encode(text);
  require(tokens.spans.size() == tokens.ids.size());
  for (const TextSpan& span : tokens.spans) {
    require(span.begin <= span.end && span.end <= text.size());
  }
  tokenizer.decode_text(tokens.ids, SpecialTokens::keep);
  visible_tokens(tokenizer, tokens.ids);
  tokenizer.pre_tokens(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  allow_bad_input([&] {
    use(data[0] % 2 == 0 ? *make_hf_tokenizer(parse_json(file, "fuzz"), "fuzz")
                         : *make_sentence_piece(file, "fuzz"));
  });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, ".tokenizer.json")) return '\0' + *kept;
  if (const auto kept = case_of_tests(random, ".spiece")) return '\1' + *kept;
  static const std::vector<std::string> seeds = {
      R"(0{"added_tokens":[{"id":5,"content":"<m>","lstrip":true,"special":true}],"normalizer":)"
      R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":)"
      R"("\\s+"},"content":" "}]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":)"
      R"json("\\p{L}+|[^\\s\\d]|\\s+(?!\\S)"},"behavior":"Isolated"},"decoder":{"type":"ByteLevel"},)json"
      R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"u":3,"<0x41>":4},"merges":["a b"],)"
      R"("unk_token":"u","byte_fallback":true}})",
      R"(0{"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
      R"("post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b",1]},"decoder":)"
      R"({"type":"WordPiece"},"model":{"type":"WordPiece","vocab":{"a":0,"##b":1,"[UNK]":2}}})",
      R"(0{"pre_tokenizer":{"type":"Metaspace","replacement":"x"},"decoder":{"type":"Sequence",)"
      R"("decoders":[{"type":"Strip","content":" ","start":1,"stop":1},{"type":"Fuse"}]},)"
      R"("model":{"type":"Unigram","unk_id":0,"vocab":[["u",0],["a",-1.5],["ab",-2]]}})",
      // Pieces <unk>, a (-1), b (-2), ab (-0.5); a trainer of type BPE; no dummy prefix.
      std::string("1\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x08\x0a\x01"
                  "a\x15\x00\x00\x80\xbf"
                  "\x0a\x08\x0a\x01"
                  "b\x15\x00\x00\x00\xc0\x0a\x09\x0a\x02"
                  "ab\x15\x00\x00\x00\xbf"
                  "\x12\x02\x18\x02\x1a\x02\x18\x00",
                  51),
  };
  std::string seed = seeds[random() % seeds.size()];
  seed[0] = static_cast<char>(seed[0] - '0');
  return seed;
}
