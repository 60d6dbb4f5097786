#include "cli/call_python.h"

#include <fmt/format.h>
#include <stdlib.h>

#include "cli/python_script.h"
#include "lacuna/core/error.h"
#include "lacuna/store/npy.h"

namespace lacuna::cli {
namespace {

// Files that are gone with it.
class Workplace {
 public:
  explicit Workplace(const fs::path& beside) {
    const fs::path folder = fs::absolute(beside).parent_path();
    fs::create_directories(folder);
    std::string name = (folder / "lacuna-transform-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw_errno(name, "cannot create");
    path_ = name;
  }
  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

}  // namespace

PythonCall call_python(const fs::path& beside, const std::string& python) {
  return [=](const TransformedField& field, const std::string& call, const Session& session,
             const Segment& segment, const std::vector<Array>& sources) {
    const size_t colon = call.rfind(':');
    const fs::path file = call.substr(0, colon);
    if (!fs::exists(file))
      throw Error(
          "transform '{}': there is no {}; its path is from the folder that lacuna is "
          "called in",
          field.name, file.string());
    const Workplace place(beside);
    const Json info = {
        {"session", session.name}, {"segment", segment.name}, {"rate", session.rate}};
    std::vector<std::string> words = {file.string(), call.substr(colon + 1),
                                      (place / "result.npy").string(), info.dump()};
    for (size_t i = 0; i < sources.size(); ++i) {
      words.push_back((place / fmt::format("{}.npy", i)).string());
      write_npy(words.back(), sources[i]);
    }
    PythonScript script("transform_function.py", python, words);
    std::string line;
    while (script.read_line(line)) fmt::print(stderr, "{}\n", line);
    if (const int status = script.end(); status != 0)
      throw Error("transform '{}': {} ended with status {} on {}/{}; its words are above",
                  field.name, call, status, session.name, segment.name);
    return read_npy(place / "result.npy");  // stays mapped when its name is gone
  };
}

}  // namespace lacuna::cli
