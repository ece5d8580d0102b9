// Tests of Checkpoint: single and sharded folders, exact sentences for everything that can be wrong with one, and
// scaling.
#include "store/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "os/clock.h"
#include "store/safetensors_writer.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using test::TempDir;

constexpr const char* kIndex = "model.safetensors.index.json";

// A file with one F32 tensor [2] per name, values {n, n + 0.5} where n counts the names.
void WriteShard(const TempDir& dir, const std::string& file, const std::vector<std::string>& names) {
  std::vector<std::array<float, 2>> values;
  for (size_t i = 0; i < names.size(); ++i) values.push_back({static_cast<float>(i), static_cast<float>(i) + 0.5f});
  std::vector<SafetensorsFile::Entry> tensors;
  for (size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], {values[i].data(), DType::kF32, {2}}});
  ASSERT_TRUE(WriteSafetensors(dir.File(file), tensors).has_value());
}

// Code and message of opening the folder, with the folder's path cut out; "opened" when nothing is wrong.
std::string Verdict(const TempDir& dir, const std::string& name = "") {
  const auto checkpoint = Checkpoint::Open(dir.path() + name);
  if (checkpoint.has_value()) return "opened";
  std::string message = std::string(ErrorCodeName(checkpoint.error().code)) + ": " + checkpoint.error().message;
  for (size_t at = message.find(dir.path()); at != std::string::npos; at = message.find(dir.path())) {
    message.replace(at, dir.path().size(), "DIR");
  }
  return message;
}

TEST(Checkpoint, OpensOneFile) {
  const TempDir dir;
  WriteShard(dir, "model.safetensors", {"b", "a"});
  const Checkpoint checkpoint = Checkpoint::Open(dir.path()).value();
  EXPECT_EQ(checkpoint.folder(), dir.path());
  EXPECT_EQ(checkpoint.files(), std::vector<std::string>({dir.File("model.safetensors")}));
  ASSERT_EQ(checkpoint.entries().size(), 2u);
  EXPECT_EQ(checkpoint.entries()[0]->name, "a");
  EXPECT_EQ(checkpoint.total_bytes(), 16u);
  EXPECT_EQ(checkpoint.Get("b", {2}, {DType::kF32}).value().as<float>()[1], 0.5f);
  EXPECT_EQ(checkpoint.Find("a").as<float>()[0], 1.0f);
  EXPECT_TRUE(checkpoint.Find("c").empty());
}

TEST(Checkpoint, OpensShardsAndSurvivesAMove) {
  const TempDir dir;
  WriteShard(dir, "model-00001-of-00002.safetensors", {"a", "b"});
  WriteShard(dir, "model-00002-of-00002.safetensors", {"c", "not.in.index"});
  dir.Write(kIndex, R"({"metadata": {"total_size": 24}, "weight_map": {
      "a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
      "c": "model-00002-of-00002.safetensors"}})");
  auto opened = Checkpoint::Open(dir.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const Checkpoint checkpoint = std::move(*opened);
  EXPECT_EQ(checkpoint.files().size(), 2u);
  EXPECT_EQ(checkpoint.entries().size(), 3u);
  EXPECT_EQ(checkpoint.total_bytes(), 24u);
  EXPECT_EQ(checkpoint.Get("b", {2}, {DType::kF32}).value().as<float>()[1], 1.5f);
  EXPECT_TRUE(checkpoint.Find("not.in.index").empty());
}

TEST(Checkpoint, GetSaysWhatWasExpectedAndFound) {
  const TempDir dir;
  WriteShard(dir, "model.safetensors", {"w"});
  const Checkpoint checkpoint = Checkpoint::Open(dir.path()).value();
  const auto missing = checkpoint.Get("x\n", {2, 3}, {DType::kF32, DType::kF16, DType::kBF16});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, dir.path() + ": tensor \"x?\" is missing, expected F32, F16 or BF16 [2, 3]");
  const auto shape = checkpoint.Get("w", {2, 1}, {DType::kF32, DType::kBF16});
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(shape.error().message,
            dir.File("model.safetensors") + ": tensor \"w\" is F32 [2], expected F32 or BF16 [2, 1]");
  const auto dtype = checkpoint.Get("w", {2}, {DType::kBF16});
  ASSERT_FALSE(dtype.has_value());
  EXPECT_EQ(dtype.error().message, dir.File("model.safetensors") + ": tensor \"w\" is F32 [2], expected BF16 [2]");
}

TEST(Checkpoint, FoldersThatAreNone) {
  const TempDir dir;
  EXPECT_EQ(Verdict(dir),
            "not_found: DIR: holds neither model.safetensors nor model.safetensors.index.json (only "
            "safetensors weights are read)");
  EXPECT_EQ(Verdict(dir, "/absent"), "not_found: DIR/absent: no such folder");
  dir.Write("file", "x");
  EXPECT_EQ(Verdict(dir, "/file"), "invalid_argument: DIR/file: is a file, expected a checkpoint folder");
  EXPECT_EQ(Checkpoint::Open("").error().message, "the name of the checkpoint folder is empty");
  std::filesystem::create_symlink("loop", dir.File("loop"));
  EXPECT_EQ(Verdict(dir, "/loop"), "io: DIR/loop: cannot open: Too many levels of symbolic links");
}

TEST(Checkpoint, WeightFilesThatAreNone) {
  const TempDir dir;
  const std::string name = "model.safetensors";
  dir.Write(name, "");
  EXPECT_EQ(Verdict(dir), "corrupt: DIR/model.safetensors is empty (0 bytes), expected safetensors weights");
  dir.Write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 17482432128\n");
  EXPECT_EQ(Verdict(dir),
            "corrupt: DIR/model.safetensors is a git-lfs pointer (17482432128 bytes of weights are not "
            "here); run git lfs pull");
  WriteShard(dir, name, {"a", "b"});
  std::filesystem::resize_file(dir.File(name), std::filesystem::file_size(dir.File(name)) - 3);
  EXPECT_EQ(Verdict(dir), "corrupt: DIR/model.safetensors is truncated: expected 136 bytes by its header, has 133");
  std::filesystem::remove(dir.File(name));
  std::filesystem::create_symlink("../blobs/0123", dir.File(name));
  EXPECT_EQ(Verdict(dir), "not_found: DIR/model.safetensors: is a link to a file that does not exist");
  std::filesystem::remove(dir.File(name));
  std::filesystem::create_symlink(name, dir.File(name));
  EXPECT_EQ(Verdict(dir), "io: DIR/model.safetensors: cannot open: Too many levels of symbolic links");
  std::filesystem::remove(dir.File(name));
  std::filesystem::create_directory(dir.File(name));
  EXPECT_EQ(Verdict(dir), "unsupported: DIR/model.safetensors: is a folder, expected a file");
}

// Caches of published models are folders of links.
TEST(Checkpoint, FollowsLinks) {
  const TempDir dir;
  std::filesystem::create_directories(dir.File("blobs"));
  std::filesystem::create_directories(dir.File("snapshot"));
  WriteShard(dir, "blobs/0123", {"a"});
  std::filesystem::create_symlink("../blobs/0123", dir.File("snapshot/model.safetensors"));
  EXPECT_EQ(Verdict(dir, "/snapshot"), "opened");
}

TEST(Checkpoint, IndexesThatAreWrong) {
  const TempDir dir;
  WriteShard(dir, "s1.safetensors", {"a"});
  const auto index = [&](const std::string& text) {
    dir.Write(kIndex, text);
    return Verdict(dir);
  };
  const std::string file = "corrupt: DIR/model.safetensors.index.json: ";
  EXPECT_EQ(index(R"({"weight_map": {"a": "s1.safetensors"}})"), "opened");
  EXPECT_TRUE(index("{\"weight_map\": {").starts_with(file + "not valid JSON: "));
  EXPECT_EQ(index("[]"), file + "expected a JSON object, found a list of 0");
  EXPECT_EQ(index("{}"), file + "\"weight_map\" is missing, it must be an object");
  EXPECT_EQ(index(R"({"weight_map": 3})"), file + "\"weight_map\" must be an object, but is 3");
  EXPECT_EQ(index(R"({"weight_map": {}})"),
            file + "\"weight_map\" must be an object that names at least one tensor, but is an object");
  EXPECT_EQ(index(R"({"weight_map": {"a": 1}})"), file + "\"weight_map.a\" must be a string, but is 1");
  EXPECT_EQ(index(R"({"weight_map": {"a": "s1.safetensors", "a": "s2"}})"), file + "holds the key \"a\" twice");
  for (const std::string outside : {"../s1.safetensors", "/etc/passwd", "sub/s1.safetensors", "..", ".", "",
                                    "..\\\\s1.safetensors", "s1.safetensors\\u0000x"}) {
    const std::string verdict = index("{\"weight_map\": {\"a\": \"" + outside + "\"}}");
    EXPECT_TRUE(
        verdict.starts_with(file + "\"weight_map.a\" must be the plain name of a file in the same folder, but is \""))
        << verdict;
  }
  EXPECT_EQ(index(R"({"weight_map": {"a": "s1.safetensors", "b": "s3.safetensors", "c": "s2.safetensors"}})"),
            "not_found: DIR: 2 of 3 weight files named by model.safetensors.index.json are missing, the first is "
            "s2.safetensors");
  EXPECT_EQ(index(R"({"weight_map": {"a": "s1.safetensors", "b": "s1.safetensors"}})"),
            "corrupt: DIR/s1.safetensors: lacks tensor \"b\", which model.safetensors.index.json says is in it");
  dir.Write("s2.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  EXPECT_EQ(index(R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})"),
            "corrupt: DIR/s2.safetensors is a git-lfs pointer (5 bytes of weights are not here); run git lfs pull");
}

// As large as a real one: 4 shards of together 17 GB, 849 tensors. The files are sparse and nothing of the data is
// read.
TEST(Checkpoint, OpensSeventeenGigabytesLazily) {
  const TempDir dir;
  constexpr int kTensors = 849;
  constexpr int64_t kRows = 2448;  // 849 * 2448 * 4096 * 2 bytes = 17 GB
  std::string headers[4];
  int64_t ends[4] = {};
  std::string weight_map;
  for (int i = 0; i < kTensors; ++i) {
    const int shard = i * 4 / kTensors;
    const std::string name = "llm.model.layers." + std::to_string(i) + ".mlp.gate_proj.weight";
    const int64_t end = ends[shard] + kRows * 4096 * 2;
    headers[shard] += (headers[shard].empty() ? "\"" : ",\"") + name + R"(":{"dtype":"BF16","shape":[)" +
                      std::to_string(kRows) + R"(,4096],"data_offsets":[)" + std::to_string(ends[shard]) + "," +
                      std::to_string(end) + "]}";
    ends[shard] = end;
    weight_map += (i == 0 ? "\"" : ",\"") + name + "\":\"s" + std::to_string(shard) + "\"";
  }
  for (int shard = 0; shard < 4; ++shard) {
    const std::string start = test::SafetensorsBytes(test::PaddedHeader("{" + headers[shard] + "}"), "");
    const std::string path = dir.Write("s" + std::to_string(shard), start);
    std::filesystem::resize_file(path, start.size() + static_cast<size_t>(ends[shard]));
  }
  dir.Write(kIndex, "{\"weight_map\":{" + weight_map + "}}");

  const auto resident_pages = [] {
    long total = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident;
  };
  const long pages_before = resident_pages();
  const double start_ms = NowMs();
  const auto checkpoint = Checkpoint::Open(dir.path());
  RecordProperty("open_us", static_cast<int>((NowMs() - start_ms) * 1000));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->entries().size(), 849u);
  EXPECT_EQ(checkpoint->total_bytes(), uint64_t{849} * kRows * 4096 * 2);
  EXPECT_LT((resident_pages() - pages_before) * ::sysconf(_SC_PAGESIZE), 32 << 20);
  const TensorView last = checkpoint->Find("llm.model.layers.848.mlp.gate_proj.weight");
  EXPECT_EQ(last.as<uint16_t>()[last.shape.elements() - 1], 0);
}

}  // namespace
}  // namespace minicpm
