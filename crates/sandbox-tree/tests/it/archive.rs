//! Archives made by hand, block by block, so that anything can be wrong with them.

/// An archive under construction.
#[derive(Clone, Default)]
pub(crate) struct Archive(pub(crate) Vec<u8>);

/// One entry, with the defaults of a small file.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) mode: u32,
    pub(crate) link: Vec<u8>,
    pub(crate) content: Vec<u8>,
    /// What the header says, if that is not the truth.
    pub(crate) size: Option<u64>,
    pub(crate) mtime: Option<[u8; 12]>,
}

pub(crate) fn item(kind: u8, name: impl AsRef<[u8]>) -> Item {
    Item {
        name: name.as_ref().to_vec(),
        kind,
        mode: if kind == b'5' { 0o755 } else { 0o644 },
        link: Vec::new(),
        content: Vec::new(),
        size: None,
        mtime: None,
    }
}

pub(crate) fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    Item {
        content: content.as_ref().to_vec(),
        ..item(b'0', name)
    }
}

pub(crate) fn directory(name: impl AsRef<[u8]>) -> Item {
    item(b'5', name)
}

pub(crate) fn link(name: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Item {
    Item {
        link: text.as_ref().to_vec(),
        ..item(b'2', name)
    }
}

impl Item {
    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}

impl Archive {
    pub(crate) fn of(items: impl IntoIterator<Item = Item>) -> Self {
        items.into_iter().fold(Self::default(), Self::with)
    }

    /// A header and its content, padded.
    pub(crate) fn with(self, item: Item) -> Self {
        let Item {
            name,
            kind,
            mode,
            link,
            content,
            size,
            mtime,
        } = item;
        let size = size.unwrap_or(content.len() as u64);
        let mut block = [0_u8; 512];
        let name = &name[..name.len().min(100)];
        block[..name.len()].copy_from_slice(name);
        block[100..108].copy_from_slice(format!("{mode:07o}\0").as_bytes());
        block[108..124].copy_from_slice(b"0000000\x000000000\0");
        if size < 1 << 33 {
            block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        } else {
            block[124] = 0x80;
            block[128..136].copy_from_slice(&size.to_be_bytes());
        }
        block[136..148].copy_from_slice(&mtime.unwrap_or(*b"14000000000\0"));
        block[156] = kind;
        let link = &link[..link.len().min(100)];
        block[157..157 + link.len()].copy_from_slice(link);
        block[257..265].copy_from_slice(b"ustar  \0");
        self.header(block).content(&content)
    }

    /// A header that gets its checksum.
    pub(crate) fn header(mut self, mut block: [u8; 512]) -> Self {
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self
    }

    fn content(mut self, content: &[u8]) -> Self {
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// GNU `L` or `K`.
    pub(crate) fn long(self, kind: u8, text: impl AsRef<[u8]>) -> Self {
        let mut content = text.as_ref().to_vec();
        content.push(0);
        self.with(Item {
            content,
            ..item(kind, "././@LongLink")
        })
    }

    /// POSIX `x` or `g`.
    pub(crate) fn extended<'a>(
        self,
        kind: u8,
        pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let mut content = Vec::new();
        for (key, value) in pairs {
            let bare = key.len() + value.len() + 3;
            let mut length = bare + 1;
            while length != bare + length.to_string().len() {
                length = bare + length.to_string().len();
            }
            content.extend_from_slice(format!("{length} {key}=").as_bytes());
            content.extend_from_slice(value);
            content.push(b'\n');
        }
        self.with(Item {
            content,
            ..item(kind, "PaxHeaders/x")
        })
    }

    /// The end mark.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}
