// Tests of the safetensors reader: what a file of the Python library holds, and the exact sentence for every broken
// promise.
#include "store/safetensors.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using test::AsBytes;
using test::PaddedHeader;
using test::SafetensorsBytes;

// The message for `bytes`, with the code in front; "parsed" when they are accepted.
std::string Verdict(const std::string& bytes) {
  std::string aligned = bytes;
  aligned.reserve(64);  // on the heap, so aligned to 16
  const auto file = SafetensorsFile::Parse(AsBytes(aligned), "f");
  return file.has_value() ? "parsed" : std::string(ErrorCodeName(file.error().code)) + ": " + file.error().message;
}

std::string HeaderVerdict(const std::string& header, size_t data_bytes) {
  return Verdict(SafetensorsBytes(PaddedHeader(header), std::string(data_bytes, 'x')));
}

// The verdict on one tensor "t" with these fields and 8 bytes of data.
std::string TensorVerdict(const std::string& fields) { return HeaderVerdict("{\"t\":{" + fields + "}}", 8); }

TEST(Safetensors, ReadsAFileOfThePythonLibrary) {
  auto opened = SafetensorsFile::Open(MINICPM_SOURCE_DIR "/tests/data/store/python.safetensors");
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const SafetensorsFile file = std::move(*opened);  // views stay valid when the file moves
  const std::vector<std::string> expected = {
      "ids I64 [2]",          "empty F32 [0, 4]", "norm.weight F32 [3]", "scalar F32 []", "i32 I32 [1]",
      "a.weight BF16 [2, 3]", "half F16 [2, 1]",  "i8 I8 [1]",           "bytes U8 [3]",
  };
  std::vector<std::string> found;
  for (const auto& e : file.entries()) {
    found.push_back(e.name + " " + NameOf(e.view.dtype) + " " + e.view.shape.ToString());
    EXPECT_FALSE(e.view.empty());
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(file.entries()[0].view.as<int64_t>()[1], int64_t{1} << 40);
  EXPECT_EQ(file.entries()[2].view.as<float>()[1], -2.5f);
  EXPECT_EQ(file.entries()[3].view.as<float>()[0], 3.0f);
  EXPECT_EQ(file.entries()[5].view.as<uint16_t>()[5], 0x40a0);  // 5.0
  EXPECT_EQ(file.entries()[6].view.as<uint16_t>()[1], 0x7bff);  // 65504
  EXPECT_EQ(file.entries()[8].view.as<uint8_t>()[2], 255);
}

TEST(Safetensors, AcceptsTheOddButLegal) {
  EXPECT_EQ(HeaderVerdict("{}", 0), "parsed");
  EXPECT_EQ(HeaderVerdict("{\"__metadata__\":{}}", 0), "parsed");
  EXPECT_EQ(TensorVerdict(R"("data_offsets": [0, 8],  "shape":[ 2 ], "new": {"x": [1]}, "dtype":"F32")"), "parsed");
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[1,2,2,2,1],"data_offsets":[0,8])"), "parsed");
  EXPECT_EQ(
      HeaderVerdict(
          R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          8),
      "parsed");
  // Empty tensors may stand between others.
  EXPECT_EQ(
      HeaderVerdict(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"z":{"dtype":"F32","shape":[7,0],"data_offsets":[4,4]},)"
          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8),
      "parsed");
}

TEST(Safetensors, FilesThatAreNoWeights) {
  EXPECT_EQ(Verdict(""), "corrupt: f is empty (0 bytes), expected safetensors weights");
  EXPECT_EQ(Verdict("abc"), "corrupt: f has 3 bytes, too few for a safetensors file");
  EXPECT_EQ(
      Verdict("PK\x03\x04 this is a zip archive"),
      "corrupt: f is not a safetensors file: its header would have 7595448452415441744 bytes, at most 100000000 are "
      "accepted");
  EXPECT_EQ(Verdict("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 4954847184\n"),
            "corrupt: f is a git-lfs pointer (4954847184 bytes of weights are not here); run git lfs pull");
  EXPECT_EQ(Verdict("version https://hawser.github.com/spec/v1\noid sha256:0123\nsize 7\n"),
            "corrupt: f is a git-lfs pointer (7 bytes of weights are not here); run git lfs pull");
  EXPECT_EQ(Verdict("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize \x1b[2J\n"),
            "corrupt: f is a git-lfs pointer (an unknown number of bytes of weights are not here); run git lfs pull");
}

TEST(Safetensors, HeaderLength) {
  const std::string hundred_million("\x00\xe1\xf5\x05\0\0\0\0{", 9);
  EXPECT_EQ(Verdict(hundred_million),
            "corrupt: f is truncated: expected at least 100000008 bytes by its header length, has 9");
  const std::string one_more("\x01\xe1\xf5\x05\0\0\0\0{", 9);
  EXPECT_EQ(
      Verdict(one_more),
      "corrupt: f is not a safetensors file: its header would have 100000001 bytes, at most 100000000 are accepted");
  EXPECT_EQ(
      Verdict(std::string(8, '\xff')),
      "corrupt: f is not a safetensors file: its header would have 18446744073709551615 bytes, at most 100000000 are "
      "accepted");
  EXPECT_EQ(Verdict(std::string(8, '\0')), "corrupt: f: the header does not begin with '{'");
}

TEST(Safetensors, HeaderJson) {
  EXPECT_EQ(HeaderVerdict(" {}", 0), "corrupt: f: the header does not begin with '{'");
  EXPECT_EQ(HeaderVerdict("[]", 0), "corrupt: f: the header does not begin with '{'");
  for (const char* json : {"{", "{}{}", "{\"a\"}", "{\"a\":1,}", "{\"\xff\":1}", "{\"a\":\"\\ud800\"}", "{} x"}) {
    EXPECT_TRUE(HeaderVerdict(json, 0).starts_with("corrupt: f: the header is not valid JSON: ")) << json;
  }
  EXPECT_TRUE(Verdict(SafetensorsBytes(std::string_view("{}\0\0\0\0\0\0", 8), ""))
                  .starts_with("corrupt: f: the header is not valid JSON: "));
  // Depth: deeper than any header needs, and deep enough to overflow a stack.
  for (const int depth : {20, 1000000}) {
    EXPECT_TRUE(HeaderVerdict("{\"t\":" + std::string(depth, '[') + std::string(depth, ']') + "}", 0)
                    .starts_with("corrupt: f: the header is not valid JSON: "));
  }
  EXPECT_EQ(HeaderVerdict(R"({"t":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"t":1})", 1),
            "corrupt: f: the header holds \"t\" twice");
  EXPECT_EQ(HeaderVerdict(R"({"__metadata__":[]})", 0), "corrupt: f: \"__metadata__\" must be an object");
  EXPECT_EQ(HeaderVerdict(R"({"__metadata__":{"k":1}})", 0),
            "corrupt: f: \"__metadata__\" must hold strings only, but \"k\" is none");
  EXPECT_EQ(HeaderVerdict(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
            "corrupt: f: \"__metadata__\" holds \"k\" twice");
}

TEST(Safetensors, TensorFields) {
  EXPECT_EQ(HeaderVerdict("{\"t\":1}", 0), "corrupt: f: tensor \"t\" must be described by an object");
  const std::string once = "corrupt: f: tensor \"t\" must have dtype, shape and data_offsets once each";
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[8])"), once);
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","data_offsets":[0,8])"), once);
  EXPECT_EQ(TensorVerdict(R"("shape":[8],"data_offsets":[0,8])"), once);
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[8],"data_offsets":[0,8],"dtype":"U8")"), once);
  EXPECT_EQ(TensorVerdict(R"("dtype":1,"shape":[8],"data_offsets":[0,8])"),
            "corrupt: f: tensor \"t\" has a dtype that is not a string");
  EXPECT_EQ(TensorVerdict(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"),
            "unsupported: f: tensor \"t\" has dtype \"F8_E4M3\", supported are F32, F16, BF16, I64, I32, I8 and U8");
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":8,"data_offsets":[0,8])"),
            "corrupt: f: tensor \"t\" has a shape that is not a list");
  for (const char* dim : {"-1", "8.0", "\"8\"", "null", "9223372036854775808", "1e1"}) {
    EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[)" + std::string(dim) + R"(],"data_offsets":[0,8])"),
              "corrupt: f: tensor \"t\" has a shape with an entry that is not a whole number from 0 to 2^63 - 1")
        << dim;
  }
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[1,1,1,1,1,8],"data_offsets":[0,8])"),
            "unsupported: f: tensor \"t\" has more than 5 dimensions");
  for (const char* offsets : {"8", "[]", "[0]", "[0,8,8]", "[8,0]", "[-1,8]", "[0,8.0]", "[0,null]"}) {
    EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[8],"data_offsets":)" + std::string(offsets)),
              "corrupt: f: tensor \"t\" must have data_offsets [begin, end] with begin <= end")
        << offsets;
  }
}

TEST(Safetensors, SizesAndOverflow) {
  EXPECT_EQ(TensorVerdict(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
            "corrupt: f: tensor \"t\" has shape [3] F32, which takes 12 bytes, but its data_offsets span 8");
  EXPECT_EQ(TensorVerdict(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"),
            "corrupt: f: tensor \"t\" has shape [] F32, which takes 4 bytes, but its data_offsets span 8");
  // 2^31 * 2^31 * 4 = 2^64: would wrap to 0.
  EXPECT_EQ(TensorVerdict(R"("dtype":"F32","shape":[2147483648,2147483648],"data_offsets":[0,0])"),
            "corrupt: f: tensor \"t\" has shape [2147483648, 2147483648], whose size in bytes overflows");
  // A zero at the end does not excuse the product before it.
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[4611686018427387904,4,0],"data_offsets":[0,0])"),
            "corrupt: f: tensor \"t\" has shape [4611686018427387904, 4, 0], whose size in bytes overflows");
  EXPECT_EQ(TensorVerdict(R"("dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807])"),
            "corrupt: f is truncated: expected 9223372036854775911 bytes by its header, has 112");
  EXPECT_EQ(
      TensorVerdict(R"("dtype":"U8","shape":[8],"data_offsets":[18446744073709551607,18446744073709551615])"),
      "corrupt: f: tensor \"t\" begins at data byte 18446744073709551607, but the data before it ends at 0 (a hole)");
}

TEST(Safetensors, Layout) {
  const auto two = [](const std::string& a, const std::string& b, size_t data_bytes) {
    return HeaderVerdict(R"({"b":{"dtype":"U8","shape":[8],"data_offsets":)" + b +
                             R"(},"a":{"dtype":"U8","shape":[8],"data_offsets":)" + a + "}}",
                         data_bytes);
  };
  EXPECT_EQ(two("[0,8]", "[8,16]", 16), "parsed");
  EXPECT_EQ(two("[0,8]", "[7,15]", 15), "corrupt: f: tensor \"b\" begins at data byte 7, inside \"a\" that ends at 8");
  EXPECT_EQ(two("[0,8]", "[0,8]", 8), "corrupt: f: tensor \"b\" begins at data byte 0, inside \"a\" that ends at 8");
  EXPECT_EQ(two("[0,8]", "[9,17]", 17),
            "corrupt: f: tensor \"b\" begins at data byte 9, but the data before it ends at 8 (a hole)");
  EXPECT_EQ(two("[1,9]", "[9,17]", 17),
            "corrupt: f: tensor \"a\" begins at data byte 1, but the data before it ends at 0 (a hole)");
  EXPECT_EQ(two("[0,8]", "[8,16]", 15), "corrupt: f is truncated: expected 136 bytes by its header, has 135");
  EXPECT_EQ(two("[0,8]", "[8,16]", 17),
            "corrupt: f has bytes that belong to no tensor: expected 136 bytes by its header, has 137");
  EXPECT_EQ(HeaderVerdict("{}", 1),
            "corrupt: f has bytes that belong to no tensor: expected 16 bytes by its header, has 17");
}

TEST(Safetensors, RefusesMisalignedElements) {
  // An unpadded header of odd length, as early writers made them.
  const std::string header = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(header.size(), 54u);
  EXPECT_EQ(
      Verdict(SafetensorsBytes(header, "01234567")),
      "unsupported: f: tensor \"t\" of F32 begins at file byte 62, which is not a multiple of its element size; save "
      "the file again with a current safetensors library");
  EXPECT_EQ(Verdict(SafetensorsBytes(header + "  ", "01234567")), "parsed");
}

TEST(Safetensors, QuotesHostileNamesHarmlessly) {
  EXPECT_EQ(HeaderVerdict("{\"\\u001b[31m\\u0000\xc3\xa9\":1}", 0),
            "corrupt: f: tensor \"?[31m?\xc3\xa9\" must be described by an object");
  const std::string verdict = HeaderVerdict("{\"" + std::string(100000, 'n') + "\":1}", 0);
  EXPECT_LT(verdict.size(), 400u);
}

TEST(Safetensors, OpenNamesThePath) {
  const test::TempDir dir;
  EXPECT_EQ(SafetensorsFile::Open(dir.File("x")).error().message, dir.File("x") + ": no such file");
  const std::string path = dir.Write("y", "abc");
  EXPECT_EQ(SafetensorsFile::Open(path).error().message, path + " has 3 bytes, too few for a safetensors file");
}

}  // namespace
}  // namespace minicpm
