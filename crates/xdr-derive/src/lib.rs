//! `#[derive(Xdr)]`: implements `xdr::Encode` and `xdr::Decode`, with the fields in declaration order.
//!
//! - A struct is its fields (RFC 4506 §4.14). `#[xdr(max = N)]` bounds a field of variable length.
//! - An enum without data is an enumeration (§4.3) with explicit discriminants; unknown values are `Malformed`. It also
//!   gets a table `NAMED`, with the name of `#[xdr(name = "…")]` or the variant's own.
//! - An enum with data is a discriminated union (§4.15), every variant with `#[xdr(tag = …)]`. A variant with
//!   `#[xdr(default)]` takes all other tags; its first field, a `u32` or an open set, keeps the tag.
//! - `#[xdr(decode)]` or `#[xdr(encode)]` on the type generates only that half.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DataEnum, DeriveInput, Error, Expr, Field, Fields, LitStr, Result, Variant};

#[proc_macro_derive(Xdr, attributes(xdr))]
pub fn derive_xdr(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// The options of `#[xdr(…)]` on a type, a variant, or a field.
#[derive(Default)]
struct Options {
    max: Option<Expr>,
    tag: Option<Expr>,
    name: Option<LitStr>,
    default: bool,
    decode: bool,
    encode: bool,
}

impl Options {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("xdr")) {
            attribute.parse_nested_meta(|meta| {
                match meta.path.require_ident()?.to_string().as_str() {
                    "max" => options.max = Some(meta.value()?.parse()?),
                    "tag" => options.tag = Some(meta.value()?.parse()?),
                    "name" => options.name = Some(meta.value()?.parse()?),
                    "default" => options.default = true,
                    "decode" => options.decode = true,
                    "encode" => options.encode = true,
                    _ => return Err(meta.error("unknown option")),
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// The two function bodies, and items for the type's own `impl`.
struct Bodies {
    encode: TokenStream,
    decode: TokenStream,
    items: TokenStream,
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = Options::parse(&input.attrs)?;
    let bodies = match &input.data {
        Data::Struct(data) => structure(&data.fields)?,
        Data::Enum(data) if data.variants.iter().all(|variant| variant.discriminant.is_some()) => {
            enumeration(data, &input.ident.to_string())?
        }
        Data::Enum(data) => union(data, &input.ident.to_string())?,
        Data::Union(_) => return Err(Error::new(input.span(), "a Rust union has no wire form")),
    };
    let Bodies { encode, decode, items } = bodies;
    let name = &input.ident;
    let (impl_generics, type_generics, bounds) = input.generics.split_for_impl();
    let encode = (!options.decode).then(|| {
        quote! {
            impl #impl_generics ::xdr::Encode for #name #type_generics #bounds {
                #[inline]
                fn encode(&self, w: &mut ::xdr::Writer<'_>) { #encode }
            }
        }
    });
    // A type with a lifetime borrows from the message. Other types decode from a message of any lifetime.
    let mut generics = input.generics.clone();
    if generics.lifetimes().next().is_none() {
        generics.params.insert(0, syn::parse_quote!('xdr));
    }
    let lifetime = generics.lifetimes().next().map(|parameter| parameter.lifetime.clone());
    let (impl_generics, ..) = generics.split_for_impl();
    let decode = (!options.encode).then(|| {
        quote! {
            impl #impl_generics ::xdr::Decode<#lifetime> for #name #type_generics #bounds {
                #[inline]
                fn decode(r: &mut ::xdr::Reader<#lifetime>) -> ::core::result::Result<Self, ::xdr::Malformed> {
                    ::core::result::Result::Ok(#decode)
                }
            }
        }
    });
    Ok(quote!(#encode #decode #items))
}

fn structure(fields: &Fields) -> Result<Bodies> {
    let names = fields.members();
    let encode = quote!(#(::xdr::Encode::encode(&self.#names, w);)*);
    let names = fields.members();
    let values = fields.iter().map(decode_field).collect::<Result<Vec<_>>>()?;
    Ok(Bodies { encode, decode: quote!(Self { #(#names: #values),* }), items: quote!() })
}

fn enumeration(data: &DataEnum, name: &str) -> Result<Bodies> {
    let variants = data.variants.iter().map(|variant| &variant.ident);
    let encode = quote!(w.u32(match self { #(Self::#variants => Self::#variants as u32),* }));
    let mut arms = quote!();
    let mut named = quote!();
    for variant in &data.variants {
        let ident = &variant.ident;
        arms.extend(quote!(value if value == Self::#ident as u32 => Self::#ident,));
        let label =
            Options::parse(&variant.attrs)?.name.map_or_else(|| ident.to_string(), |name| name.value());
        named.extend(quote!((#label, Self::#ident as u32),));
    }
    let unknown = format!("unknown value of {name}");
    let decode = quote!(match r.u32()? { #arms _ => return Err(::xdr::Malformed(#unknown)) });
    let ident = format_ident!("{name}");
    let items = quote! {
        impl #ident {
            /// Every variant with its name in the specification.
            pub const NAMED: &'static [(&'static str, u32)] = &[#named];
        }
    };
    Ok(Bodies { encode, decode, items })
}

fn union(data: &DataEnum, name: &str) -> Result<Bodies> {
    let (mut tags, mut encode, mut decode, mut default) = (quote!(), quote!(), quote!(), None);
    for (index, variant) in data.variants.iter().enumerate() {
        let Variant { ident, fields, attrs, .. } = variant;
        if matches!(fields, Fields::Named(_)) {
            return Err(Error::new(variant.span(), "an arm's fields have no names: make them a struct"));
        }
        let options = Options::parse(attrs)?;
        let values = fields.iter().map(decode_field).collect::<Result<Vec<_>>>()?;
        let bindings: Vec<_> = (0..fields.len()).map(|index| format_ident!("field{index}")).collect();
        // A pattern of braces fits unit and tuple variants alike.
        let members: Vec<_> = fields.members().collect();
        if options.default {
            let rest =
                values.get(1..).ok_or_else(|| Error::new(variant.span(), "the default arm keeps its tag"))?;
            default = Some(quote!(tag => Self::#ident(::core::convert::From::from(tag), #(#rest),*)));
            encode
                .extend(quote!(Self::#ident(#(#bindings),*) => { #(::xdr::Encode::encode(#bindings, w);)* }));
            continue;
        }
        let value =
            options.tag.ok_or_else(|| Error::new(variant.span(), "an arm needs `tag` or `default`"))?;
        let tag = format_ident!("TAG{index}");
        tags.extend(quote!(const #tag: u32 = #value;));
        encode.extend(quote!(
            Self::#ident { #(#members: #bindings),* } => { w.u32(#tag); #(::xdr::Encode::encode(#bindings, w);)* }
        ));
        decode.extend(quote!(#tag => Self::#ident { #(#members: #values),* },));
    }
    let unknown = format!("unknown arm of {name}");
    let default = default.unwrap_or_else(|| quote!(_ => return Err(::xdr::Malformed(#unknown))));
    Ok(Bodies {
        encode: quote!(#tags match self { #encode }),
        decode: quote!({ #tags match r.u32()? { #decode #default } }),
        items: quote!(),
    })
}

fn decode_field(field: &Field) -> Result<TokenStream> {
    Ok(match Options::parse(&field.attrs)?.max {
        Some(max) => quote!(::xdr::DecodeMax::decode_max(r, #max)?),
        None => quote!(::xdr::Decode::decode(r)?),
    })
}
