#include "app/window/recording.h"

#include "app/window/deflated.h"
#include "app/window/session.h"
#include "formats/error.h"
#include "formats/sha256.h"
#include "formats/tensors/safetensors.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

// All answers but their tensors: JSON, deflated to a quarter, in a tensor of bytes. The file's
// metadata say how long the text is.
constexpr const char* kAnswers = "answers";
constexpr const char* kAnswersSize = "answers_size";
constexpr std::size_t kLargestAnswers = std::size_t{1} << 28;
// Stands for the folder of bundled models, which is another one on every machine.
constexpr const char* kAssets = "${assets}";

std::string key_of(const std::string& method, json params) {
  params.erase("size");
  return method + " " + formats::sha256_hex(params.dump());
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

json with_texts_replaced(json value, const std::string& from, const std::string& to) {
  if (value.is_string()) {
    replace_all(value.get_ref<std::string&>(), from, to);
  } else if (value.is_structured()) {
    for (json& part : value) part = with_texts_replaced(std::move(part), from, to);
  }
  return value;
}

// "3/map": the tensor `map` of the answer 3.
std::string tensor_name(std::size_t answer, const std::string& name) {
  return std::to_string(answer) + "/" + name;
}

const formats::TensorEntry& entry_of(const formats::SafetensorsFile& file,
                                     const std::string& stored) {
  const formats::TensorEntry* entry = file.find(stored);
  if (!entry) {
    throw formats::bad_input("the recording lacks its tensor '" + stored + "'",
                             file.path().string());
  }
  return *entry;
}

std::vector<std::byte> bytes_of(const formats::SafetensorsFile& file,
                                const formats::TensorEntry& entry) {
  std::vector<std::byte> bytes(entry.size);
  file.read(entry, bytes);
  return bytes;
}

protocol::TensorRef read_tensor(const formats::SafetensorsFile& file, const std::string& stored,
                                const std::string& name) {
  const formats::TensorEntry& entry = entry_of(file, stored);
  const std::vector<std::byte> bytes = bytes_of(file, entry);
  return protocol::TensorRef::copy(name, entry.dtype_name, entry.shape, bytes.data());
}

json read_answers(const formats::SafetensorsFile& file) {
  const std::size_t size = std::stoull(file.metadata().at(kAnswersSize));
  if (size > kLargestAnswers) {
    throw std::invalid_argument("its answers are said to be " + std::to_string(size) +
                                " bytes long");
  }
  return json::parse(inflated(bytes_of(file, entry_of(file, kAnswers)), size));
}

}  // namespace

void Recording::keep(const std::string& method, const json& params, const protocol::Reply& reply) {
  replies_[key_of(method, params)] = reply;
}

const protocol::Reply* Recording::find(const std::string& method, const json& params) const {
  const auto found = replies_.find(key_of(method, params));
  return found == replies_.end() ? nullptr : &found->second;
}

void Recording::write(formats::FileSystem& files, const std::filesystem::path& path) const {
  json answers = json::array();
  std::vector<formats::TensorToWrite> tensors;
  for (const auto& [key, reply] : replies_) {
    json names = json::array();
    for (const protocol::TensorRef& tensor : reply.tensors) {
      names.push_back(tensor.name);
      tensors.push_back({tensor_name(answers.size(), tensor.name),
                         formats::dtype_from_name(tensor.dtype), tensor.shape, tensor.bytes()});
    }
    answers.push_back(
        {{"question", key},
         {"result", with_texts_replaced(reply.result, assets_folder().string(), kAssets)},
         {"tensors", std::move(names)}});
  }
  const std::string text = answers.dump();
  const std::vector<std::byte> bytes = deflated(text);
  tensors.push_back(
      {kAnswers, formats::dtype_from_name("U8"), {static_cast<std::int64_t>(bytes.size())}, bytes});
  formats::write_safetensors(files, path, tensors, {{kAnswersSize, std::to_string(text.size())}});
}

Recording Recording::read(const std::filesystem::path& path) {
  const auto file = formats::SafetensorsFile::open(path);
  Recording recording;
  try {
    const json answers = read_answers(file);
    for (std::size_t n = 0; n < answers.size(); ++n) {
      protocol::Reply reply{
          with_texts_replaced(answers[n].at("result"), kAssets, assets_folder().string()), {}};
      for (const std::string name : answers[n].at("tensors")) {
        reply.tensors.push_back(read_tensor(file, tensor_name(n, name), name));
      }
      recording.replies_[answers[n].at("question")] = std::move(reply);
    }
  } catch (const formats::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw formats::bad_input(std::string("this is no recording of a session: ") + error.what(),
                             path.string());
  }
  return recording;
}

}  // namespace phasescope::app
