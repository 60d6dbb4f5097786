// Named arrays in one file: the safetensors format (eight bytes of header length, a JSON header,
// the data), which Python and Rust read too. Checkpoints are such files.
//
// Writing is atomic: a reader sees the whole old file or the whole new one. Reading maps the file,
// and checks that the arrays fill it, side by side.
#pragma once

#include <map>
#include <string>

#include "lacuna/core/array.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

struct Safetensors {
  std::map<std::string, Array> arrays;          // by name
  std::map<std::string, std::string> metadata;  // free text by key
};

void write_safetensors(const fs::path& path, const Safetensors& contents);
// Arrays stay mapped as long as a copy of them lives. Throws Error naming the file and what is
// wrong with it.
Safetensors read_safetensors(const fs::path& path);

// A checksum of names, arrays and metadata, kept as metadata "xxh3". It does not cover the types
// and shapes of arrays: readers check those.
void add_checksum(Safetensors& contents);
Seal seal_of(const Safetensors& contents);

}  // namespace lacuna
