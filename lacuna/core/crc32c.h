// CRC-32C (Castagnoli), the checksum of Zarr's chunks and of TensorBoard's event files. By the
// processor's own instruction where it has one, else by tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lacuna {

uint32_t crc32c(std::span<const std::byte> bytes);
uint32_t crc32c_by_tables(std::span<const std::byte> bytes);  // the reference

}  // namespace lacuna
