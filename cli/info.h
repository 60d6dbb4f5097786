// Parts of `lacuna info` (cli/info.cpp) that have files of their own.
#pragma once

#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/screen/screen.h"

namespace lacuna::cli {

// What the run in this directory is, how far it came and what it holds; reads what the report
// reads.
void print_run_info(const fs::path& path, bool json);
// What the process that trained it last returned: 0 finished, 75 stopped by a signal, 1 else.
int training_exit_code(const fs::path& path);

// What the recording in this directory holds; check: reads every byte of it first.
void print_recording_info(const fs::path& path, bool json, bool check);

// The same of a store of a recording's frames.
void print_frame_store_info(const fs::path& path, bool json, bool check);

// One gene of a screen, by any of its names: what it is called, its edges, the samples that remove
// it.
void print_gene_info(const Screen& screen, const std::string& gene, bool json);

}  // namespace lacuna::cli
