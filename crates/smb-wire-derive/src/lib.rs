//! `#[derive(Wire)]`: implements `smb_wire::Encode` and `smb_wire::Decode`, little-endian, wire order being
//! declaration order.
//!
//! - A struct is its fields. `#[wire(size = N)]` on it puts a `StructureSize` of N in front, which decoding
//!   compares; where N is odd and no buffer follows, one zero does (MS-SMB2 counts the first byte of the
//!   buffer). `#[wire(end = N)]` ends the fixed part with N reserved bytes.
//! - `#[wire(pad = N)]` on a field puts N reserved bytes before it: zeros, which nobody reads.
//! - `#[wire(offset = u16, length = u32)]` makes a field a buffer: here are its offset from the start of the message and its
//!   length, in the order of the attribute, `gap = N` reserved bytes between them; the bytes follow the fixed part, the
//!   buffers in the order of their fields. Without `offset`, they follow at once. With `optional`, the offset of an
//!   empty buffer is 0.
//! - An enum without data is a closed set of the integers of its `repr`; unknown values are `Malformed`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DataEnum, DeriveInput, Error, Field, Fields, Generics, Ident, Lifetime, LitInt, Result,
    parse_quote,
};

#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// A field of `#[wire(offset, length)]`, in the order of the attribute.
enum LocationPart {
    Offset(Ident),
    Length(Ident),
    Gap(LitInt),
}

/// The options of `#[wire(…)]` on a type or a field.
#[derive(Default)]
struct Options {
    size: Option<LitInt>,
    end: Option<LitInt>,
    pad: Option<LitInt>,
    location: Vec<LocationPart>,
    optional: bool,
}

impl Options {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("wire")) {
            attribute.parse_nested_meta(|meta| {
                match meta.path.require_ident()?.to_string().as_str() {
                    "size" => options.size = Some(meta.value()?.parse()?),
                    "end" => options.end = Some(meta.value()?.parse()?),
                    "pad" => options.pad = Some(meta.value()?.parse()?),
                    "offset" => options.location.push(LocationPart::Offset(meta.value()?.parse()?)),
                    "length" => options.location.push(LocationPart::Length(meta.value()?.parse()?)),
                    "gap" => options.location.push(LocationPart::Gap(meta.value()?.parse()?)),
                    "optional" => options.optional = true,
                    _ => return Err(meta.error("unknown option")),
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// The bodies of `encode` and `decode`.
struct MethodBodies {
    encode: TokenStream,
    decode: TokenStream,
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let bodies = match &input.data {
        Data::Struct(data) => expand_struct(&data.fields, &Options::parse(&input.attrs)?)?,
        Data::Enum(data) => expand_enum(data, &input.attrs, &input.ident.to_string())?,
        Data::Union(_) => return Err(Error::new(input.span(), "a Rust union has no wire form")),
    };
    let MethodBodies { encode, decode } = bodies;
    let name = &input.ident;
    let (_, type_generics, _) = input.generics.split_for_impl();
    let writing = add_bounds(&input.generics, &quote!(::smb_wire::EncodeBuffer));
    let (impl_generics, _, bounds) = writing.split_for_impl();
    let encode = quote! {
        impl #impl_generics ::smb_wire::Encode for #name #type_generics #bounds {
            #[inline]
            fn encode(&self, w: &mut ::smb_wire::Writer<'_>) { #encode }
        }
    };
    let lifetime = message_lifetime(&input.generics);
    let mut reading = add_bounds(&input.generics, &quote!(::smb_wire::DecodeBuffer<#lifetime>));
    if reading.lifetimes().next().is_none() {
        reading.params.insert(0, parse_quote!(#lifetime));
    }
    let (impl_generics, _, bounds) = reading.split_for_impl();
    let decode = quote! {
        impl #impl_generics ::smb_wire::Decode<#lifetime> for #name #type_generics #bounds {
            #[inline]
            fn decode(r: &mut ::smb_wire::Reader<#lifetime>) -> ::core::result::Result<Self, ::smb_wire::Malformed> {
                #decode
            }
        }
    };
    Ok(quote!(#encode #decode))
}

/// The lifetime of the borrowed message; a type that borrows nothing gets a fresh one.
fn message_lifetime(generics: &Generics) -> Lifetime {
    let own = generics.lifetimes().next().map(|parameter| parameter.lifetime.clone());
    own.unwrap_or_else(|| parse_quote!('wire))
}

/// Adds bounds to the type parameters, all of which are buffers.
fn add_bounds(generics: &Generics, bound: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#bound));
    }
    generics
}

fn expand_struct(fields: &Fields, options: &Options) -> Result<MethodBodies> {
    let mut parts = Statements::default();
    for (index, (field, member)) in fields.iter().zip(fields.members()).enumerate() {
        parts.field(field, &quote!(self.#member), &format_ident!("field{index}"))?;
    }
    let Statements { write, write_buffers, buffer_offsets: placed, read, read_buffers } = parts;
    let size = options.size.as_ref();
    let write_size = size.map(|size| quote!(w.u16(#size);));
    let read_size = size.map(|size| quote!(r.structure_size(#size)?;));
    let write_end = options.end.as_ref().map(|end| quote!(w.zeros(#end);));
    let read_end = options.end.as_ref().map(|end| quote!(r.skip(#end)?;));
    let odd = size.map(|size| size.base10_parse::<u16>()).transpose()?.is_some_and(|size| size % 2 == 1);
    let write_odd = odd.then(|| quote!(if true #(&& #placed.length == 0)* { w.zeros(1); }));
    let encode = quote!(#write_size #write #write_end #write_buffers #write_odd);
    let values = (0..fields.len()).map(|index| format_ident!("field{index}"));
    let members = fields.members();
    let decode = quote! {
        #read_size #read #read_end #read_buffers
        ::core::result::Result::Ok(Self { #(#members: #values),* })
    };
    Ok(MethodBodies { encode, decode })
}

/// Statements of the fixed part, and of the buffers behind it.
#[derive(Default)]
struct Statements {
    write: TokenStream,
    write_buffers: TokenStream,
    /// The variables that hold where each buffer was written.
    buffer_offsets: Vec<Ident>,
    read: TokenStream,
    read_buffers: TokenStream,
}

impl Statements {
    fn field(&mut self, field: &Field, value: &TokenStream, local: &Ident) -> Result<()> {
        let options = Options::parse(&field.attrs)?;
        if let Some(pad) = &options.pad {
            self.write.extend(quote!(w.zeros(#pad);));
            self.read.extend(quote!(r.skip(#pad)?;));
        }
        if options.location.is_empty() {
            self.write.extend(quote!(::smb_wire::Encode::encode(&#value, w);));
            self.read.extend(quote!(let #local = ::smb_wire::Decode::decode(r)?;));
            return Ok(());
        }
        self.buffer(field, &options, value, local)
    }

    fn buffer(&mut self, field: &Field, options: &Options, value: &TokenStream, local: &Ident) -> Result<()> {
        let optional = options.optional;
        let placed = format_ident!("{local}_placed");
        self.write_buffers.extend(quote!(let #placed = w.buffer(&#value, #optional);));
        let (mut offset, mut length) = (quote!(::core::option::Option::None), None);
        for part in &options.location {
            match part {
                LocationPart::Gap(gap) => {
                    self.write.extend(quote!(w.zeros(#gap);));
                    self.read.extend(quote!(r.skip(#gap)?;));
                }
                LocationPart::Offset(int) => {
                    let at = self.reserve_int(int, &format_ident!("{local}_offset"));
                    self.write_buffers.extend(quote!(w.patch::<#int>(#at, #placed.offset);));
                    offset = quote!(::core::option::Option::Some(usize::try_from(#at).unwrap_or(usize::MAX)));
                }
                LocationPart::Length(int) => {
                    let at = self.reserve_int(int, &format_ident!("{local}_length"));
                    self.write_buffers.extend(quote!(w.patch::<#int>(#at, #placed.length);));
                    length = Some(quote!(usize::try_from(#at).unwrap_or(usize::MAX)));
                }
            }
        }
        self.buffer_offsets.push(placed);
        let length = length.ok_or_else(|| Error::new(field.span(), "a buffer needs a length"))?;
        self.read_buffers.extend(quote! {
            let #local = ::smb_wire::DecodeBuffer::decode_buffer(
                r, ::smb_wire::BufferLocation { offset: #offset, length: #length },
            )?;
        });
        Ok(())
    }

    /// Reserves an integer that is known once its buffer is written.
    fn reserve_int(&mut self, int: &Ident, local: &Ident) -> Ident {
        self.write.extend(quote!(let #local = w.position(); w.zeros(::core::mem::size_of::<#int>());));
        self.read.extend(quote!(let #local: #int = ::smb_wire::Decode::decode(r)?;));
        local.clone()
    }
}

fn expand_enum(data: &DataEnum, attributes: &[Attribute], name: &str) -> Result<MethodBodies> {
    let repr = attributes.iter().find(|attribute| attribute.path().is_ident("repr"));
    let repr = repr.ok_or_else(|| Error::new(data.variants.span(), "a closed set needs a `repr`"))?;
    let int: Ident = repr.parse_args()?;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let encode = quote!(::smb_wire::Encode::encode(&match self { #(Self::#variants => Self::#variants as #int),* }, w););
    let unknown = format!("unknown value of {name}");
    let decode = quote! {
        let value: #int = ::smb_wire::Decode::decode(r)?;
        #(if value == Self::#variants as #int { return ::core::result::Result::Ok(Self::#variants); })*
        ::core::result::Result::Err(::smb_wire::Malformed(#unknown))
    };
    Ok(MethodBodies { encode, decode })
}
