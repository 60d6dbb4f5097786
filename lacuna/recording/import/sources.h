// The kinds of files, one function each; open_foreign() picks by name and contents.
#pragma once

#include "lacuna/recording/import/foreign.h"

namespace lacuna {

// Name of what lies in a file that is itself one array: "stim" of stim.npy.
ForeignSource open_npy(const fs::path& path);
// NAME.dat, with NAME_meta.npz: `shape`, `dtype` (text, "float16") and perhaps `offset`.
ForeignSource open_raw_map(const fs::path& path);
ForeignSource open_torch(const fs::path& path, const ForeignOptions& options);
ForeignSource open_hdf5(const fs::path& path, const ForeignOptions& options);
ForeignSource open_zarr(const fs::path& path, const ForeignOptions& options);

// The same through Python's h5py: what libhdf5 cannot open, or has no filter for. `why` is what
// libhdf5 said; part of the message where there is no h5py.
ForeignSource open_h5py(const fs::path& path, const ForeignOptions& options,
                        const std::string& why);

}  // namespace lacuna
