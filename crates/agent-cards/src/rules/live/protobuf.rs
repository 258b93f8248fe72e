//! The subset of the Protocol Buffers wire format that one message and its answer need.

/// A field of a message: its number, by the type of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// String, bytes or message.
    Octets(u64),
    /// A number of any width.
    Number,
}

/// Encodes a field with bytes.
pub fn octets(field: u64, bytes: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len() + 4);
    write_varint(field << 3 | 2, &mut written);
    write_varint(bytes.len() as u64, &mut written);
    written.extend_from_slice(bytes);
    written
}

/// Encodes a field with a number.
pub fn number(field: u64, number: u64) -> Vec<u8> {
    let mut written = Vec::new();
    write_varint(field << 3, &mut written);
    write_varint(number, &mut written);
    written
}

fn write_varint(mut number: u64, written: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            written.push(low & 0x7f);
            return;
        }
        written.push(low | 0x80);
    }
}

/// The fields of a message, if all of it is well-formed.
pub fn fields(mut message: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let skipped = match tag & 7 {
            0 => {
                varint(&mut message)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (_, rest) = message.split_at_checked(skipped)?;
        message = rest;
        fields.push(match tag {
            _ if tag >> 3 == 0 => return None,
            _ if tag & 7 == 2 => Field::Octets(tag >> 3),
            _ => Field::Number,
        });
    }
    Some(fields)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (octet, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::nothing(&[], Some(vec![]))]
    #[case::text(&[0x0a, 2, b'h', b'i'], Some(vec![Field::Octets(1)]))]
    #[case::number(&[0x20, 0x96, 0x01], Some(vec![Field::Number]))]
    #[case::fixed(&[0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8], Some(vec![Field::Number, Field::Number]))]
    #[case::large_number(&[0xc2, 0x3e, 0], Some(vec![Field::Octets(1000)]))]
    #[case::cut_text(&[0x0a, 2, b'h'], None)]
    #[case::cut_number(&[0x20, 0x96], None)]
    #[case::cut_fixed(&[0x0d, 1, 2, 3], None)]
    #[case::endless(&[0xff; 11], None)]
    #[case::group(&[0x0b], None)]
    #[case::field_zero(&[0x02, 0], None)]
    #[case::huge(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], None)]
    fn protobuf_fields_are_parsed_up_to_the_end_of_the_message(
        #[case] message: &[u8],
        #[case] expected: Option<Vec<Field>>,
    ) {
        assert_eq!(fields(message), expected);
    }

    proptest! {
        #[test]
        fn encoded_protobuf_fields_decode_to_the_same_fields(field in 1_u64..1000, text in ".{0,300}", value: u64) {
            let message = [octets(field, text.as_bytes()), number(field, value)].concat();
            prop_assert_eq!(fields(&message), Some(vec![Field::Octets(field), Field::Number]));
        }

        #[test]
        fn parsing_arbitrary_bytes_does_not_panic(message: Vec<u8>) {
            fields(&message);
        }
    }
}
