#include "lacuna/core/seal.h"

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/json.h"

namespace lacuna {
namespace {

constexpr const char* kMember = "checksum";

// How a seal is written: a beginning, 16 hex digits, an end.
struct Form {
  std::string_view begin, end;
  size_t size() const { return begin.size() + 16 + end.size(); }
};
constexpr Form kJson = {",\n  \"checksum\": \"xxh3:", "\"\n}\n"};
constexpr Form kJsonLine = {",\"checksum\":\"xxh3:", "\"}"};
constexpr Form kYaml = {"# checksum xxh3:", "\n"};

std::string seal(std::string_view before, const Form& form) {
  return fmt::format("{}{}{}", form.begin, hex(hash64(before)), form.end);
}

size_t differences(std::string_view a, std::string_view b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

// Whether this is a damaged seal, by the bytes around its digits: nothing else that we write looks
// nearly like one.
bool is_nearly(std::string_view found, const Form& form) {
  constexpr size_t kNearly = 8;  // bytes of the form that may be damaged
  if (found.size() != form.size()) return false;
  return differences(found.substr(0, form.begin.size()), form.begin) +
             differences(found.substr(form.begin.size() + 16), form.end) <=
         kNearly;
}

// The seal at the end of a text.
Seal find_seal(std::string_view text, const Form& form) {
  if (text.size() < form.size()) return Seal::none;
  const std::string_view before = text.substr(0, text.size() - form.size());
  const std::string_view found = text.substr(before.size());
  if (found == seal(before, form)) return Seal::intact;
  return is_nearly(found, form) ? Seal::broken : Seal::none;
}

// A checksum that is not at the end means that the text was rearranged: its seal is broken.
Seal seal_of(std::string_view text, const Form& form) {
  const Seal seal = find_seal(text, form);
  if (seal != Seal::none || text.find("\"checksum\"") == text.npos) return seal;
  try {
    const Json json = parse_json(text, "text");
    return json.is_object() && json.contains(kMember) ? Seal::broken : Seal::none;
  } catch (const Error&) {
    return Seal::none;  // not JSON: the reader says so, naming the file
  }
}

// The object's text up to where the seal goes.
std::string open_end(Json object, int indent, std::string_view end) {
  LACUNA_ASSERT(object.is_object());
  object.erase(kMember);
  LACUNA_ASSERT(!object.empty());
  std::string text = object.dump(indent);
  text.resize(text.size() - end.size());
  return text;
}

}  // namespace

std::string sealed_json(Json object) {
  std::string text = open_end(std::move(object), 2, "\n}");
  return text += seal(text, kJson);
}

std::string sealed_json_line(Json object) {
  std::string text = open_end(std::move(object), -1, "}");
  return text += seal(text, kJsonLine);
}

std::string sealed_yaml(std::string text) { return seal(text, kYaml) + text; }

Seal seal_of_json(std::string_view text) { return seal_of(text, kJson); }
Seal seal_of_json_line(std::string_view line) { return seal_of(line, kJsonLine); }
Seal seal_of_yaml(std::string_view text) {
  const std::string_view found = text.substr(0, kYaml.size());
  if (found == seal(text.substr(found.size()), kYaml)) return Seal::intact;
  const bool is_moved = text.find(kYaml.begin) != text.npos;  // lines were added before it
  const bool is_cut = !text.empty() && kYaml.begin.starts_with(text);
  return is_moved || is_cut || is_nearly(found, kYaml) ? Seal::broken : Seal::none;
}

std::string broken_seal_words() {
  return "its bytes have changed since lacuna wrote it (its checksum does not match); restore it "
         "or "
         "make it again, or, if the change is intended, delete the checksum";
}

SealedJson read_sealed_json(const fs::path& path) {
  return parse_sealed_json(read_text(path), path.string());
}

SealedJson parse_sealed_json(std::string_view text, std::string_view where) {
  Json json = parse_json(text, where);
  const Seal seal = seal_of_json(text);
  if (seal == Seal::broken) throw Error("{}: {}", where, broken_seal_words());
  if (json.is_object()) json.erase(kMember);
  return {std::move(json), seal == Seal::intact};
}

void write_sealed_json(const fs::path& path, const Json& object) {
  write_text_atomically(path, sealed_json(object));
}

std::string read_sealed_yaml(const fs::path& path) {
  const std::string text = read_text(path);
  const Seal seal = seal_of_yaml(text);
  if (seal == Seal::broken) throw Error("{} is damaged: {}", path.string(), broken_seal_words());
  return seal == Seal::intact ? text.substr(kYaml.size()) : text;
}

}  // namespace lacuna
