//! The parts of Thrift's compact protocol that the metadata of Parquet uses. The metadata is read
//! here before the library reads it, to refuse documents that are too large or too deep.

/// Maximum depth of structs and lists.
const MAX_DEPTH: usize = 12;
/// Maximum number of values in one struct, with those inside it.
const MAX_VALUES: usize = 1_000_000;

/// A value; texts and numbers with decimals are skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Integer(i64),
    Struct(Struct),
    List(Vec<Value>),
    Other,
}

/// Maximum number of fields of a struct.
const MAX_FIELDS: usize = 64;

/// The fields of a struct by their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct(Vec<(i16, Value)>);

impl Struct {
    fn get(&self, id: i16) -> Option<&Value> {
        self.0
            .iter()
            .find(|(field, _)| *field == id)
            .map(|(_, value)| value)
    }

    pub fn integer(&self, id: i16) -> Option<i64> {
        match self.get(id)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub fn inner(&self, id: i16) -> Option<&Self> {
        match self.get(id)? {
            Value::Struct(inner) => Some(inner),
            _ => None,
        }
    }

    /// The structs of a list.
    pub fn structs(&self, id: i16) -> impl Iterator<Item = &Self> {
        let list = match self.get(id) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().filter_map(|value| match value {
            Value::Struct(inner) => Some(inner),
            _ => None,
        })
    }
}

/// Reads one struct at the start of the bytes; returns it and its size.
///
/// # Errors
/// The bytes end within it, or it is too large.
pub fn read(bytes: &[u8]) -> Result<(Struct, usize), String> {
    let mut reader = Reader {
        bytes,
        at: 0,
        left: MAX_VALUES,
    };
    let found = reader.structure(0)?;
    Ok((found, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many more values may follow.
    left: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte.ok_or_else(|| "its metadata ends early".to_owned())
    }

    fn skip(&mut self, size: usize) -> Result<(), String> {
        self.at = self.at.saturating_add(size);
        match self.at <= self.bytes.len() {
            true => Ok(()),
            false => Err("its metadata ends early".to_owned()),
        }
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("its metadata has an invalid number".to_owned())
    }

    fn zigzag(&mut self) -> Result<i64, String> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn size(&mut self) -> Result<usize, String> {
        usize::try_from(self.varint()?).map_err(|_| "its metadata has an invalid size".to_owned())
    }

    fn structure(&mut self, depth: usize) -> Result<Struct, String> {
        let mut fields: Vec<(i16, Value)> = Vec::new();
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Ok(Struct(fields));
            }
            id = match head >> 4 {
                0 => i16::try_from(self.zigzag()?)
                    .map_err(|_| "its metadata has an invalid field".to_owned())?,
                delta => id.wrapping_add(i16::from(delta)),
            };
            let value = match kind {
                // The value of a boolean field is in its head.
                1 | 2 => Value::Integer(i64::from(kind == 1)),
                kind => self.value(kind, depth + 1)?,
            };
            // A reader that takes the last of two equal fields would see other values.
            if fields.len() >= MAX_FIELDS || fields.iter().any(|(known, _)| *known == id) {
                return Err("its metadata has too many fields".to_owned());
            }
            fields.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("its metadata is nested too deeply".to_owned());
        }
        self.left = self
            .left
            .checked_sub(1)
            .ok_or("its metadata has too many values")?;
        Ok(match kind {
            1..=3 => Value::Integer(i64::from(self.byte()?)),
            4..=6 => Value::Integer(self.zigzag()?),
            7 => self.skip(8).map(|()| Value::Other)?,
            8 => {
                let size = self.size()?;
                self.skip(size).map(|()| Value::Other)?
            }
            9 | 10 => Value::List(self.list(depth)?),
            11 => {
                self.map(depth)?;
                Value::Other
            }
            12 => Value::Struct(self.structure(depth)?),
            _ => return Err("its metadata has a value of an unknown type".to_owned()),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, String> {
        let head = self.byte()?;
        let size = match usize::from(head >> 4) {
            15 => self.size()?,
            size => size,
        };
        // Every item counts, so a large size is refused before much is read.
        (0..size)
            .map(|_| self.value(head & 0x0f, depth + 1))
            .collect()
    }

    fn map(&mut self, depth: usize) -> Result<(), String> {
        let size = self.size()?;
        if size == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        for _ in 0..size {
            self.value(kinds >> 4, depth + 1)?;
            self.value(kinds & 0x0f, depth + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_of_all_kinds_are_read() {
        // 1: true, 2: i32 -3, 3: "ab", 5: [1, 2], 6: {1: 7}, 7: double.
        let bytes = [
            0x11, 0x15, 0x05, 0x18, 0x02, b'a', b'b', 0x29, 0x25, 0x02, 0x04, 0x1c, 0x15, 0x0e,
            0x00, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0xff,
        ];
        let (found, size) = read(&bytes).unwrap();
        assert_eq!(size, bytes.len() - 1);
        assert_eq!(found.integer(1), Some(1));
        assert_eq!(found.integer(2), Some(-3));
        assert_eq!(found.integer(3), None);
        assert_eq!(
            found.get(5),
            Some(&Value::List(vec![Value::Integer(1), Value::Integer(2)]))
        );
        assert_eq!(found.inner(6).and_then(|it| it.integer(1)), Some(7));
    }

    #[test]
    fn deep_and_large_documents_are_refused() {
        let fault = read(&[0x1c; 100]).unwrap_err();
        assert!(fault.contains("nested too deeply"), "{fault}");
        // A list of 2^35 booleans.
        let fault = read(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x7f]).unwrap_err();
        assert!(fault.contains("ends early"), "{fault}");
        let mut many = vec![0x19, 0xf1, 0xff, 0xff, 0xff, 0x7f];
        many.extend(vec![1; 1_100_000]);
        let fault = read(&many).unwrap_err();
        assert!(fault.contains("too many values"), "{fault}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }
    }
}
