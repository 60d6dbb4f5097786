// What a newcomer reads: the workflow in order, and the command that was probably meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna::cli {

// Of `lacuna --help`: what it is, its words, first steps.
extern const char* const kAbout;
// Of `lacuna` alone and of `lacuna help`: the commands in the order in which one needs them.
extern const char* const kWorkflow;

// "; did you mean 'train'?" for a command or an option that is not there and looks like one that
// is, empty where none does. word: as it was typed, with the dashes of an option.
std::string near_miss(const CLI::App& app, const std::string& word);

}  // namespace lacuna::cli
