#include "lacuna/core/text/yaml_text.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// Checks what the parser finds before anything is built from it.
class Checker : public YAML::EventHandler {
 public:
  explicit Checker(const std::string& where) : where_(where) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      refuse(mark, "a second document begins; keep one, and no `---` behind its first line");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "a word that begins with * stands for other text; write that out, or quote it");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    go_in(mark);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    go_in(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapEnd() override { --depth_; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& why) const {
    throw Error("{}: line {}: {}", where_, mark.line + 1, why);
  }
  void go_in(const YAML::Mark& mark) {
    if (++depth_ > kYamlDepth)
      refuse(mark,
             fmt::format("lists and maps are nested deeper than {}; a config needs 3", kYamlDepth));
  }

  std::string where_;
  int depth_ = 0, documents_ = 0;
};

}  // namespace

YAML::Node load_yaml(const std::string& text, const std::string& where) {
  if (text.size() > kYamlBytes)
    throw Error("{} has {} bytes, and a config at most {}; is it another file?", where, text.size(),
                kYamlBytes);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Checker checker(where);
    while (parser.HandleNextDocument(checker)) {
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw Error("{}: line {}: {}", where, error.mark.line + 1, error.msg);
  }
}

}  // namespace lacuna
