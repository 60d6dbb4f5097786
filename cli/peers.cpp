#include "cli/peers.h"

#include <fmt/format.h>

#include "cli/python_script.h"
#include "lacuna/core/error.h"
#include "lacuna/core/text/json.h"

namespace lacuna::cli {
std::vector<Json> run_peers(const PeersSettings& settings,
                            const std::function<void(const Json& peer)>& on_peer) {
  PythonScript script(
      "ladder_peers.py", settings.python,
      {settings.screen.string(), "--batch", std::to_string(settings.batch), "--seconds",
       fmt::format("{}", settings.seconds), "--folder", settings.folder.string()});
  std::vector<Json> peers;
  for (std::string line; script.read_line(line);) {
    const Json json = parse_json(line, script.path().string() + " printed");
    if (json.contains("error")) throw Error(json.at("error").get<std::string>());
    peers.push_back(json);
    on_peer(json);
  }
  if (const int status = script.end(); status != 0)
    throw Error("{} failed with status {}; what Python said stands above", script.path().string(),
                status);
  return peers;
}

}  // namespace lacuna::cli
