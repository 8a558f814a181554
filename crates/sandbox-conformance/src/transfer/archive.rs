//! Archives made block by block, right and wrong ones.

/// An archive under construction.
#[derive(Clone, Default)]
pub(crate) struct Archive(Vec<u8>);

impl Archive {
    /// Any entry: its type, and what its header says.
    pub(crate) fn entry(
        mut self,
        kind: u8,
        name: impl AsRef<[u8]>,
        mode: u32,
        link: impl AsRef<[u8]>,
        content: impl AsRef<[u8]>,
    ) -> Self {
        let content = content.as_ref();
        let mut block = [0_u8; 512];
        let mut put = |at: usize, bytes: &[u8], most: usize| {
            for (place, byte) in block.iter_mut().skip(at).zip(bytes.iter().take(most)) {
                *place = *byte;
            }
        };
        put(0, name.as_ref(), 100);
        put(100, format!("{mode:07o}").as_bytes(), 8);
        put(108, b"0000000", 8);
        put(116, b"0000000", 8);
        put(124, format!("{:011o}", content.len()).as_bytes(), 12);
        put(136, format!("{MODIFIED:011o}").as_bytes(), 12);
        put(148, b"        ", 8);
        put(156, &[kind], 1);
        put(157, link.as_ref(), 100);
        put(257, b"ustar  ", 8);
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        for (place, byte) in block
            .iter_mut()
            .skip(148)
            .zip(format!("{sum:06o}\0 ").bytes())
        {
            *place = byte;
        }
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        self.entry(b'0', name, 0o644, "", content)
    }

    pub(crate) fn directory(self, name: impl AsRef<[u8]>) -> Self {
        self.entry(b'5', name, 0o755, "", "")
    }

    pub(crate) fn link(self, name: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Self {
        self.entry(b'2', name, 0o777, text, "")
    }

    /// Without its end mark.
    pub(crate) fn cut(self) -> Vec<u8> {
        self.0
    }

    /// With it.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// When everything in an archive was changed: the seventh of June 2009, in seconds since 1970.
pub(crate) const MODIFIED: u64 = 1_244_376_000;
