//! libFuzzer on `spp_fuzz::archive`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spp_fuzz::archive(data));
