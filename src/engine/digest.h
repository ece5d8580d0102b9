// SHA-256 through OpenSSL, for identities of pictures and weights. Not for passwords or keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace minicpm {

// Move-only running hash.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Update(std::span<const std::byte> bytes);
  std::array<uint8_t, 32> Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Lower-case hexadecimal.
std::string Hex(std::span<const uint8_t> bytes);

}  // namespace minicpm
