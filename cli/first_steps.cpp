#include "cli/first_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lacuna/core/text/nearest.h"

namespace lacuna::cli {

const char* const kAbout =
    R"(Lacuna trains models on perturbed copies of one big thing without making the copies.

Five words:
  screen     one graph and many samples, each of which removes a few genes and has measured labels
  recording  sessions of movies with spike counts; a sample is a short window
  store      data expanded ahead of time and written to disk, for those who want to
  rung       where a sample is expanded: on disk, in memory, by a worker, on the device, in the kernel
  run        a trained model with its settings, metrics and checkpoints

First steps (`lacuna help` has the whole workflow):
  lacuna generate screen demo --size mini --removed 8 --seed 1 \
    --share-gene 0.15 --share-pair 0.05 --share-graph 0.75 --share-noise 0.05
  lacuna split demo --name pair --by pair --column query_pair --seed 1
  lacuna train configs/demo.yaml --set screen=demo --out run
  lacuna report run --out report.html
)";

const char* const kWorkflow =
    R"(Lacuna trains models on perturbed copies of one big thing without making the copies.

The workflow, in order; `lacuna help COMMAND` says more of each:
  1  lacuna import screen SCREEN ...       your tables become a screen (none yet: lacuna generate)
     lacuna info SCREEN                    what is in it; subset and concat make others of it
  2  lacuna split SCREEN --name S --by ..  what is held out: genes, pairs, whole screens
  3  lacuna plan SCREEN                    what it costs on this machine
  4  lacuna train CONFIG --out RUN         a model, and its scores beside simple baselines
  5  lacuna evaluate RUN                   the scores again, of another checkpoint or screen
  6  lacuna compare CONFIG --out GRID      is it luck? several seeds, splits and settings
  7  lacuna predict RUN --all-pairs ...    what was not measured: which to make next
  8  lacuna report RUN --out FILE.html     all of it as one page

A recording goes the same way: import recording, split, plan, train, evaluate, report.
`lacuna --help` lists every command.
)";

namespace {

// The nearest of them where less than half of its letters would have to change.
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest_word(word, known);
  const size_t apart = letters_apart(word, near);
  if (near.empty() || near == word || 2 * apart >= std::max(word.size(), near.size())) return "";
  return fmt::format(" (did you mean '{}'?)", near);
}

}  // namespace

std::string near_miss(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    return suggestion(word.substr(0, word.find('=')), known);
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  return suggestion(word, known);
}

}  // namespace lacuna::cli
