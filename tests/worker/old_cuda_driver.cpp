// A driver of CUDA that is too old for any program: a libcuda.so.1 that refuses to begin, with the
// numbers that cuda.h gives (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_NOT_FOUND).
extern "C" {

int cuInit(unsigned) { return 803; }

int cuDriverGetVersion(int* version) {
  *version = 9000;
  return 0;
}

int cuGetProcAddress(const char*, void** address, int, unsigned long long) {
  *address = nullptr;
  return 500;
}
}
