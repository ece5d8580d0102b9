// Conversion of the tiny models: what is stored, the same bytes for any threads and after any kill, clear refusals.
#include "convert/convert.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "base/half.h"
#include "convert/convert_test_util.h"
#include "convert/encode.h"
#include "engine/engine.h"
#include "store/checkpoint.h"
#include "store/safetensors_writer.h"
#include "tests/support/expand_checkpoint.h"
#include "tests/support/json_schema.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> out(static_cast<size_t>(view.shape.elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (view.dtype == DType::kF32) std::memcpy(&out[i], static_cast<const char*>(view.data) + 4 * i, 4);
    if (view.dtype == DType::kBF16) out[i] = Bf16ToF32(view.as<uint16_t>()[i]);
    if (view.dtype == DType::kF16) out[i] = F16ToF32(view.as<uint16_t>()[i]);
  }
  return out;
}

// What a packed matrix must decode to: the source, packed panel by panel and decoded.
std::vector<float> PackedAndDecoded(const TensorView& source, DType dtype) {
  const std::vector<float> w = Floats(source);
  const int64_t n = source.shape[0];
  const int64_t k = source.shape[1];
  std::vector<std::byte> bytes(static_cast<size_t>(quant::PackedBytes(dtype, n, k)));
  quant::EncodeStats stats;
  for (int64_t row = 0; row < n; row += quant::kPanelRows) {
    EXPECT_TRUE(quant::EncodePanel(dtype, w.data() + row * k, k, std::min(quant::kPanelRows, n - row), k,
                                   quant::Search::kLeastSquares,
                                   bytes.data() + row / quant::kPanelRows * quant::PanelBytes(dtype, k), stats)
                    .has_value());
  }
  std::vector<float> out(w.size());
  for (int64_t row = 0; row < n; ++row)
    quant::DecodeRow({bytes.data(), dtype, source.shape}, row, out.data() + row * k);
  return out;
}

struct Case {
  const char* family;
  const char* weights;
};
class ConvertEach : public ::testing::TestWithParam<Case> {};

TEST_P(ConvertEach, HoldsTheSourceInItsFormats) {
  const test::TempDir dir;
  const std::string folder = dir.File("bundle");
  const auto done = ConvertCheckpoint(test::TinyConversion(GetParam().family, folder, GetParam().weights));
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder + ".partial"));
  EXPECT_THAT(testing::ValidateText("bundle.schema.json", test::ReadFileBytes(folder + "/bundle.json")), IsEmpty());

  const auto source = Checkpoint::Open(test::TinyModelFolder(GetParam().family));
  const auto bundle = Checkpoint::Open(folder);
  ASSERT_TRUE(bundle.has_value()) << bundle.error().message;
  int n_packed = 0;
  for (const auto* entry : bundle->entries()) {
    const TensorView from = source->Find(entry->name);
    const TensorView& to = entry->view;
    ASSERT_EQ(from.shape, to.shape) << entry->name;
    EXPECT_EQ(bundle->PlaceOf(entry->name).offset % 64, 0u);
    if (from.dtype == to.dtype) {
      EXPECT_EQ(std::memcmp(from.data, to.data, from.bytes()), 0) << entry->name;
    } else if (!IsPacked(to.dtype)) {
      ASSERT_EQ(to.dtype, DType::kF16);
      const std::vector<float> expected = Floats(from);
      const std::vector<float> found = Floats(to);
      for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], F16ToF32(F32ToF16(expected[i]))) << entry->name;
    } else {
      ++n_packed;
      std::vector<float> found(static_cast<size_t>(to.shape.elements()));
      for (int64_t r = 0; r < to.shape[0]; ++r) quant::DecodeRow(to, r, found.data() + r * to.shape[1]);
      EXPECT_EQ(found, PackedAndDecoded(from, to.dtype)) << entry->name;
    }
  }
  EXPECT_EQ(n_packed > 0, std::string(GetParam().weights) != "f16");
  for (const char* name : {"config.json", "vocab.json", "tokenizer_config.json"}) {
    EXPECT_EQ(test::ReadFileBytes(folder + "/" + name),
              test::ReadFileBytes(test::TinyModelFolder(GetParam().family) + "/" + name));
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/model.safetensors.index.json"));
  const auto engine = Engine::Open(folder, {});
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  EXPECT_EQ(*(*engine)->WeightsSha256(), done->manifest.weights.sha256);
}

INSTANTIATE_TEST_SUITE_P(Families, ConvertEach,
                         ::testing::Values(Case{"minicpm-v-2_6", "int4"}, Case{"minicpm-v-2_6", "f16"},
                                           Case{"minicpm-v-4_5", "int4"}, Case{"minicpm-v-4_5", "int8"},
                                           Case{"minicpm-o-4_5", "int8"}),
                         [](const auto& suite) {
                           std::string name = std::string(suite.param.family) + "_" + suite.param.weights;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Convert, ManifestKnowsSourcesAndErrors) {
  const test::TempDir dir;
  const auto done = ConvertCheckpoint(test::TinyConversion("minicpm-v-4_5", dir.File("b"), "int4"));
  ASSERT_TRUE(done.has_value()) << done.error().message;
  const BundleManifest& m = done->manifest;
  EXPECT_EQ(m.family, "minicpm-v-4_5");
  EXPECT_EQ(m.created_utc, test::kCreated);
  ASSERT_GE(m.sources.size(), 2u);
  for (const BundleFile& file : m.sources) {
    const auto hashed = HashFile(test::TinyModelFolder("minicpm-v-4_5"), file.name, nullptr, nullptr);
    ASSERT_TRUE(hashed.has_value()) << file.name;
    EXPECT_EQ(hashed->sha256, file.sha256) << file.name;
    EXPECT_EQ(hashed->bytes, file.bytes) << file.name;
  }
  bool seen = false;
  for (const BundleGroup& group : m.groups) {
    EXPECT_EQ(group.relative_rms.has_value(), group.format == "INT4" || group.format == "INT8") << group.name;
    if (group.name != "language.linear") continue;
    seen = true;
    EXPECT_GT(*group.relative_rms, 0.04);
    EXPECT_LT(*group.relative_rms, 0.12);
  }
  EXPECT_TRUE(seen);
}

TEST(Convert, SameBytesForAnyThreads) {
  const test::TempDir dir;
  for (const int n : {1, 2, 3}) {
    ConvertOptions options = test::TinyConversion("minicpm-v-4_5", dir.File(std::to_string(n)), "int4");
    options.n_threads = n;
    const auto done = ConvertCheckpoint(options);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  EXPECT_TRUE(test::SameFolders(dir.File("1"), dir.File("2")));
  EXPECT_TRUE(test::SameFolders(dir.File("1"), dir.File("3")));
}

// Counts, and kills its process soon after call `fatal`.
class Killer : public ConvertListener {
 public:
  explicit Killer(int64_t fatal, int delay_us) : fatal_(fatal), delay_us_(delay_us) {}
  void OnProgress(const char*, uint64_t, uint64_t) override {
    if (++n_calls != fatal_) return;
    std::thread([delay = delay_us_] {
      ::usleep(static_cast<useconds_t>(delay));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  int64_t n_calls = 0;

 private:
  int64_t fatal_;
  int delay_us_;
};

// Runs the conversion in a process of its own; the signal that ended it, or 0.
int RunAndMaybeDie(ConvertOptions options, int64_t fatal, int delay_us) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    Killer killer(fatal, delay_us);
    options.listener = &killer;
    const auto done = ConvertCheckpoint(options);
    ::_exit(done.has_value() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Convert, KilledTenTimesAndResumedGivesTheSameBytes) {
  const test::TempDir dir;
  const std::string checkpoint = dir.File("f32");
  std::filesystem::create_directories(checkpoint);
  ASSERT_TRUE(test::ExpandCheckpoint(test::TinyModelFolder("minicpm-v-4_5"), checkpoint, DType::kF32).has_value());
  ConvertOptions options = test::TinyConversion("minicpm-v-4_5", dir.File("whole"), "int4");
  options.checkpoint = checkpoint;
  options.sync_bytes = 20000;  // an entry of the journal for every few tensors
  Killer counter(-1, 0);
  options.listener = &counter;
  ASSERT_TRUE(ConvertCheckpoint(options).has_value());
  options.listener = nullptr;

  options.folder = dir.File("killed");
  std::mt19937 random(7);
  int n_killed = 0;
  for (int i = 0; i < 10; ++i) {
    // Each attempt begins at the first call, and what is finished is only hashed: later and later moments are reached.
    const auto fatal = static_cast<int64_t>(1 + random() % static_cast<uint32_t>(counter.n_calls / 10));
    n_killed += RunAndMaybeDie(options, fatal, static_cast<int>(random() % 3000)) == SIGKILL ? 1 : 0;
    if (std::filesystem::exists(options.folder)) break;  // complete before the signal came
    EXPECT_TRUE(std::filesystem::exists(options.folder + ".partial"));
  }
  EXPECT_GE(n_killed, 5);
  if (!std::filesystem::exists(options.folder)) {
    const auto done = ConvertCheckpoint(options);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  EXPECT_TRUE(test::SameFolders(dir.File("whole"), dir.File("killed")));
  EXPECT_FALSE(std::filesystem::exists(options.folder + ".partial"));
}

// Raises the cancel flag at one call.
class Canceller : public ConvertListener {
 public:
  explicit Canceller(int64_t at) : at_(at) {}
  void OnProgress(const char*, uint64_t, uint64_t) override {
    if (--at_ == 0) flag = true;
  }
  std::atomic<bool> flag{false};

 private:
  int64_t at_;
};

TEST(Convert, AnUnfinishedBundleGoesOnOnlyWithTheSameOptionsAndSources) {
  const test::TempDir dir;
  const std::string checkpoint = dir.File("checkpoint");
  std::filesystem::copy(test::TinyModelFolder("minicpm-o-4_5"), checkpoint, std::filesystem::copy_options::recursive);
  ConvertOptions options = test::TinyConversion("minicpm-o-4_5", dir.File("b"), "int8");
  options.checkpoint = checkpoint;
  Canceller canceller(20);
  options.listener = &canceller;
  options.cancel = &canceller.flag;
  const auto stopped = ConvertCheckpoint(options);
  ASSERT_TRUE(stopped.has_value()) << stopped.error().message;
  ASSERT_TRUE(stopped->cancelled);
  EXPECT_FALSE(std::filesystem::exists(options.folder));
  options.cancel = nullptr;
  options.listener = nullptr;

  ConvertOptions other = options;
  other.recipe.weights = "int4";
  const auto refused = ConvertCheckpoint(other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("--restart"));
  std::filesystem::last_write_time(
      checkpoint + "/model.safetensors",
      std::filesystem::last_write_time(checkpoint + "/model.safetensors") + std::chrono::seconds(5));
  const auto changed = ConvertCheckpoint(options);
  ASSERT_FALSE(changed.has_value());
  EXPECT_THAT(changed.error().message, HasSubstr("sources"));
  options.restart = true;
  const auto done = ConvertCheckpoint(options);
  EXPECT_TRUE(done.has_value()) << done.error().message;
}

TEST(Convert, ReplacesOnlyBundlesAndOnlyWhenForced) {
  const test::TempDir dir;
  ConvertOptions options = test::TinyConversion("minicpm-v-2_6", dir.File("b"), "int8");
  ASSERT_TRUE(ConvertCheckpoint(options).has_value());
  options.recipe.weights = "int4";
  const auto refused = ConvertCheckpoint(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("--force"));
  options.force = true;
  const auto replaced = ConvertCheckpoint(options);
  ASSERT_TRUE(replaced.has_value()) << replaced.error().message;
  EXPECT_EQ(Checkpoint::Open(options.folder)->bundle()->recipe.at("weights"), "int4");

  dir.Write("mine/thesis.txt", "years of work");
  options.folder = dir.File("mine");
  const auto never = ConvertCheckpoint(options);
  ASSERT_FALSE(never.has_value());
  EXPECT_THAT(never.error().message, HasSubstr("not a bundle"));
  dir.Write("other.partial/notes.txt", "x");
  options.folder = dir.File("other");
  EXPECT_FALSE(ConvertCheckpoint(options).has_value());
  options.restart = true;
  EXPECT_FALSE(ConvertCheckpoint(options).has_value());
  EXPECT_EQ(test::ReadFileBytes(dir.File("other.partial/notes.txt")), "x");
}

TEST(Convert, RefusesBadPlaces) {
  const test::TempDir dir;
  const auto error = [&](const std::string& folder, const std::string& checkpoint) {
    ConvertOptions options = test::TinyConversion("minicpm-v-2_6", folder, "int8");
    if (!checkpoint.empty()) options.checkpoint = checkpoint;
    const auto done = ConvertCheckpoint(options);
    return done.has_value() ? std::string("no error") : done.error().message;
  };
  EXPECT_THAT(error(dir.Write("file", "x") + "/b", ""), HasSubstr("file/b.partial: cannot be created"));
  EXPECT_THAT(error(dir.File("none/b"), ""), HasSubstr("none/b.partial"));
  const std::string copy = dir.File("copy");
  std::filesystem::copy(test::TinyModelFolder("minicpm-v-2_6"), copy, std::filesystem::copy_options::recursive);
  EXPECT_THAT(error(copy + "/bundle", copy), HasSubstr("inside the checkpoint"));
  ASSERT_TRUE(ConvertCheckpoint(test::TinyConversion("minicpm-v-2_6", dir.File("b"), "int8")).has_value());
  EXPECT_THAT(error(dir.File("c"), dir.File("b")), HasSubstr("is a bundle already"));
  EXPECT_THAT(error(dir.File("c"), dir.File("absent")), HasSubstr("no such folder"));
}

// The same tensors with one value changed.
void WriteChanged(const std::string& to, const std::string& name, uint16_t half) {
  std::filesystem::copy(test::TinyModelFolder("minicpm-v-2_6"), to, std::filesystem::copy_options::recursive);
  const auto source = Checkpoint::Open(to);
  ASSERT_TRUE(source.has_value());
  const Checkpoint::Place place = source->PlaceOf(name);
  std::fstream file(source->files()[place.file], std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(place.offset + 2 * (256 * 17 + 3)));
  file.write(reinterpret_cast<const char*>(&half), 2);
}

TEST(Convert, ValuesThatNoFormatHoldsAreNamedWithTheirPlace) {
  const test::TempDir dir;
  const std::string name = "llm.model.layers.1.self_attn.q_proj.weight";
  const auto error = [&](const std::string& checkpoint, const std::string& weights) {
    ConvertOptions options = test::TinyConversion("minicpm-v-2_6", dir.File("b"), weights);
    options.checkpoint = checkpoint;
    options.restart = true;
    const auto done = ConvertCheckpoint(options);
    EXPECT_FALSE(std::filesystem::exists(options.folder));
    return done.has_value() ? std::string("no error") : done.error().message;
  };
  WriteChanged(dir.File("nan"), name, 0x7fc0);
  EXPECT_THAT(error(dir.File("nan"), "int4"),
              HasSubstr(name + "\", row 17, column 3: expected a finite number, found NaN"));
  EXPECT_THAT(error(dir.File("nan"), "f32"), HasSubstr("row 17, column 3"));
  WriteChanged(dir.File("large"), name, F32ToBf16(1e6f));
  EXPECT_THAT(error(dir.File("large"), "f16"), HasSubstr("too large for F16"));
}

TEST(Convert, AFullDiskIsASentenceAndCanBeResumed) {
  const test::TempDir dir;
  ConvertOptions options = test::TinyConversion("minicpm-v-4_5", dir.File("b"), "int4");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {3 << 20, 3 << 20};  // the weights need 5 MB
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto done = ConvertCheckpoint(options);
    const bool named =
        !done.has_value() && done.error().message.find("weights.safetensors: cannot") != std::string::npos;
    ::_exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(std::filesystem::exists(options.folder));
  EXPECT_TRUE(ConvertCheckpoint(options).has_value());
}

TEST(Convert, TheDiskIsAskedFirst) {
  const test::TempDir dir;
  std::string config = test::ReadFileBytes(test::TinyModelFolder("minicpm-v-4_5") + "/config.json");
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(config.find(from), std::string::npos) << from;
    config.replace(config.find(from), from.size(), to);
  };
  replace("\"hidden_size\": 256", "\"hidden_size\": 65536");
  replace("\"intermediate_size\": 200", "\"intermediate_size\": 524288");
  replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000");
  SyntheticOptions options = test::TinySynthetic("minicpm-v-4_5", dir.File("b"));
  options.model = dir.Write("config.json", config);
  const auto done = WriteSyntheticBundle(options);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done.error().message, HasSubstr("bytes more, but the disk has"));
}

}  // namespace
}  // namespace minicpm
